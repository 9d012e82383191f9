"""Prompts of an experiment: texts in the TOML, text files, or a .jsonl of questions (question_id, category, turns)."""
import dataclasses
import itertools
import json
import pathlib

from .problem import Problem


@dataclasses.dataclass(frozen=True)
class Prompt:
    name: str
    kind: str
    text: str


def read_all(tables):
    """Every prompt that the tables [prompts.NAME] name, in order."""
    for name, table in tables.items():
        known = {'kind', 'text', 'file', 'characters', 'limit', 'categories'}
        if not isinstance(table, dict) or ('text' in table) == ('file' in table):
            raise Problem(f'prompts.{name} needs either text = "..." or file = "..."')
        for key in table.keys() - known:
            raise Problem(f"prompts.{name}: '{key}' is not known; it may have {', '.join(sorted(known))}")
        if 'text' in table:
            yield Prompt(name, table.get('kind', name), table['text'])
        elif str(table['file']).endswith('.jsonl'):
            yield from questions(name, table)
        else:
            yield Prompt(name, table.get('kind', name), contents(name, table)[:table.get('characters')])


def contents(name, table):
    try:
        return pathlib.Path(table['file']).read_bytes().decode()
    except (OSError, UnicodeDecodeError) as error:
        raise Problem(f'prompts.{name}: {table["file"]} cannot be read: {error}') from None


def questions(name, table):
    """The first turn of each question; `limit` takes the first of every category, then the second, until there are enough."""
    by_category = {}
    for number, line in enumerate(contents(name, table).rstrip('\n').split('\n'), 1):
        try:
            question = json.loads(line)
            prompt = Prompt(f'{name}-{question["question_id"]}', question['category'], question['turns'][0])
        except (ValueError, KeyError, IndexError, TypeError):
            raise Problem(f'prompts.{name}: line {number} of {table["file"]} is no question; it needs question_id, category and turns') from None
        by_category.setdefault(prompt.kind, []).append(prompt)
    chosen = table.get('categories', list(by_category))
    for category in chosen:
        if category not in by_category:
            raise Problem(f"prompts.{name}: there is no category '{category}'; there are {', '.join(by_category)}")
    in_turn = (prompt for layer in itertools.zip_longest(*(by_category[category] for category in chosen)) for prompt in layer if prompt)
    yield from itertools.islice(in_turn, table.get('limit'))
