"""Prompts of an experiment: texts in the TOML, text files, or a .jsonl with a prompt per line."""
import dataclasses
import itertools
import json
import pathlib
import re

from common.files import reading
from common.problem import Problem
from .plan_values import require_text, whole_number


MAX_CHARACTERS = 10**9
# The keys of a table [prompts.NAME], by what the prompts are read from.
KEYS = {'a text': {'kind', 'text', 'format'}, 'a text file': {'kind', 'file', 'source', 'characters', 'format'},
        'a .jsonl file': {'kind', 'file', 'source', 'limit', 'categories', 'format', 'second_turn'}}
PLACES = ('{prompt}', '{answer}', '{question}')  # of second_turn


@dataclasses.dataclass(frozen=True)
class Prompt:
    name: str
    kind: str
    text: str
    second: str = ''  # the question of the second turn of MT-bench; empty: none
    after: str = ''  # of a second turn: the name of the first one, whose answer stands between `text` and `rest`
    rest: str = ''

    def complete(self, answer):
        """The whole text; `answer`: what the model wrote in the first turn."""
        return self.text + answer + self.rest if self.after else self.text


def read_all(tables):
    """The prompts of the tables [prompts.NAME], in order."""
    for name, table in tables.items():
        if not isinstance(table, dict) or ('text' in table) == ('file' in table):
            raise Problem(f'prompts.{name} needs either text = "..." or file = "..."')
        check_keys(name, table)
        if not isinstance(table.get('format', ''), str) or '{}' not in table.get('format', '{}'):
            raise Problem(f'prompts.{name}: format needs {{}}, the place of the prompt')
        for prompt in prompts_of(name, table):
            first = dataclasses.replace(prompt, text=table.get('format', '{}').replace('{}', prompt.text))
            yield first
            if 'second_turn' in table and first.second:
                yield second_turn(first, table['second_turn'])


def second_turn(first, form):
    """The second turn of a question: the first prompt, the answer, and the second question, as `form` puts them together."""
    filled = {'{prompt}': first.text, '{question}': first.second}
    before, rest = (re.sub(r'\{prompt\}|\{question\}', lambda found: filled[found[0]], part) for part in form.split('{answer}'))
    return dataclasses.replace(first, name=f'{first.name}-2', text=before, second='', after=first.name, rest=rest)


def check_keys(name, table):
    read_from = 'a text' if 'text' in table else 'a .jsonl file' if str(table['file']).endswith('.jsonl') else 'a text file'
    for key, value in table.items():
        if key not in KEYS[read_from]:
            why = f"has no effect on {read_from}; leave it out" if any(key in keys for keys in KEYS.values()) else \
                f"is not known; with {read_from}, there may be {', '.join(sorted(KEYS[read_from]))}"
            raise Problem(f"prompts.{name}: '{key}' {why}")
        if key in ('limit', 'characters'):
            whole_number(f'prompts.{name}: {key}', value, most=MAX_CHARACTERS)
        if key == 'second_turn' and (not isinstance(value, str) or any(value.count(place) != 1 for place in PLACES)):
            raise Problem(f'prompts.{name}: second_turn is {value!r}; give a text that has each of {", ".join(PLACES)} once')
        if key in ('text', 'file', 'kind', 'source') and not isinstance(value, str):
            raise Problem(f'prompts.{name}: {key} is {value!r}; write it in quotes')
        if key == 'file':
            require_text(f'prompts.{name}: {key}', value, 'give the name of a file')
        if key == 'categories' and (not isinstance(value, list) or not value or not all(isinstance(one, str) for one in value)):
            raise Problem(f'prompts.{name}: categories is {value!r}; give a list of names, or leave it out')


def prompts_of(name, table):
    if 'text' in table:
        yield Prompt(name, table.get('kind', name), table['text'])
    elif str(table['file']).endswith('.jsonl'):
        yield from questions(name, table)
    else:
        yield Prompt(name, table.get('kind', name), contents(name, table)[:table.get('characters')])


def contents(name, table):
    started = 'paths are relative to the folder where launch/experiment is started'
    remedy = f'get it from {table["source"]}' if 'source' in table else started
    try:
        with reading(f'prompts.{name}: {table["file"]}', remedy, 1):
            return pathlib.Path(table['file']).read_bytes().decode()
    except UnicodeDecodeError:
        raise Problem(f'prompts.{name}: {table["file"]} is no UTF-8 text; convert it') from None


def text_of(question):
    """The text of a line, as `yamata features` and `yamata acceptance` read it: its prompt, its text, the first of its turns (MT-bench),
    its question (GSM8K), or its instruction and, on the next line, its input (Alpaca). Raises KeyError, IndexError or TypeError if it has
    none."""
    texts = {key: question[key] for key in ('prompt', 'text', 'question', 'instruction') if isinstance(question.get(key), str)}
    turns = question.get('turns')
    if isinstance(turns, list) and turns and isinstance(turns[0], str):
        texts['turns'] = turns[0]
    key = next((key for key in ('prompt', 'text', 'turns', 'question', 'instruction') if key in texts), None)
    if key == 'instruction' and isinstance(question.get('input'), str) and question['input']:
        return f'{texts[key]}\n{question["input"]}'
    return texts[key]


def second_of(question):
    """The second of the turns of a line whose first one is the prompt; empty: there is none."""
    turns = question.get('turns')
    has = isinstance(turns, list) and len(turns) > 1 and isinstance(turns[1], str) and turns[0] == text_of(question)
    return turns[1] if has else ''


def parsed(line, where):
    """The JSON of a line. Half of a surrogate pair, which JSON may hold as \\ud800, is no character."""
    try:
        value = json.loads(line)
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise Problem(f'{where} has half of a surrogate pair, which is no character; correct it') from None
    except (ValueError, RecursionError):
        raise Problem(f'{where} is not JSON; each line of a list of prompts is an object, such as {{"prompt": "Once"}}') from None
    return value


def questions(name, table):
    """One prompt per non-empty line. `limit` takes the first prompt of every category, then the second, until there are enough."""
    by_category = {}
    for number, line in enumerate(contents(name, table).split('\n'), 1):
        if not line.strip():
            continue
        question = parsed(line, f'prompts.{name}: line {number} of {table["file"]}')
        try:
            kind = question.get('category', table.get('kind', name))
            if not isinstance(kind, str):
                raise TypeError(kind)
            prompt = Prompt(f'{name}-{question.get("question_id", number)}', kind, text_of(question), second_of(question))
        except (KeyError, IndexError, TypeError, AttributeError):
            raise Problem(f'prompts.{name}: line {number} of {table["file"]} has no text in "prompt", "text", "turns", '
                          '"question" or "instruction"') from None
        by_category.setdefault(prompt.kind, []).append(prompt)
    if 'second_turn' in table and not any(prompt.second for prompts in by_category.values() for prompt in prompts):
        raise Problem(f'prompts.{name}: no line of {table["file"]} has a second turn; leave second_turn out')
    if not by_category:
        raise Problem(f'prompts.{name}: {table["file"]} has no prompts; write one per line')
    chosen = table.get('categories', list(by_category))
    for category in chosen:
        if category not in by_category:
            raise Problem(f"prompts.{name}: there is no category '{category}'; there are {', '.join(by_category)}")
    in_turn = (prompt for layer in itertools.zip_longest(*(by_category[category] for category in chosen)) for prompt in layer if prompt)
    yield from itertools.islice(in_turn, table.get('limit'))
