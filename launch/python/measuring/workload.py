"""The table [load] of an experiment: requests at the same time to an engine, which is started once for all of them."""
import dataclasses
import math
import random

from common.problem import Problem

from . import prompts
from .plan_values import MAX_TOKENS, refuse_unknown, values, whole_number, whole_numbers

KEYS = {'levels', 'rates', 'requests', 'prompt_tokens', 'answer_tokens'}
MAX_AT_ONCE = 1024  # open requests of an engine
MAX_REQUESTS = 100_000
MAX_SEED = 2**64


@dataclasses.dataclass(frozen=True)
class Workload:
    """`levels`: {column: value} of each. `requests`: of each. The lengths of prompts and answers, in tokens, are drawn from lists."""
    levels: tuple
    requests: int
    prompt_tokens: tuple
    answer_tokens: tuple

    @property
    def meaning(self):
        """What must stay the same for all rows."""
        return [self.requests, self.prompt_tokens, self.answer_tokens]


@dataclasses.dataclass(frozen=True)
class Request:
    """`prompt`: token ids; `answer`: how many tokens."""
    prompt: tuple
    answer: int
    seed: int


def is_rate(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < math.inf


def read(table):
    """The Workload of the table [load]. Raises Problem."""
    refuse_unknown('load', table, KEYS)
    if 'levels' not in table and 'rates' not in table:
        raise Problem('load has neither levels nor rates; write levels = [1, 2, 4, 8] for requests at a time, or rates = [0.5, 1] for '
                      'arrivals per second')
    whole = lambda key, fallback, most: [whole_number(f'load: {key}', value, 1, most)
                                         for value in whole_numbers(table, key, fallback, 1, most)]
    levels = [{'concurrency': level, 'rate': ''} for level in (whole('levels', 1, MAX_AT_ONCE) if 'levels' in table else ())]
    rates = values(table, 'rates', 1, is_rate, 'a number above 0') if 'rates' in table else ()
    levels += [{'concurrency': '', 'rate': rate} for rate in rates]
    return Workload(tuple(levels), whole_number('load: requests', table.get('requests', 16), 1, MAX_REQUESTS),
                tuple(whole('prompt_tokens', 64, MAX_TOKENS)), tuple(whole('answer_tokens', 64, MAX_TOKENS)))


def refuse_others(toml):
    """Raises Problem for what an experiment with [load] cannot have: it measures engines."""
    for key, why in (('programs', 'the engine of Yamata is loaded, not another program'), ('chat', 'prompts are parts of texts'),
                     ('tokens', 'write answer_tokens in [load]')):
        if key in toml:
            raise Problem(f'there are [load] and {key}; leave {key} out: {why}')
    for name, table in toml['prompts'].items():
        if isinstance(table, dict) and 'second_turn' in table:
            raise Problem(f'prompts.{name} has a second_turn, but the prompts of [load] are parts of its texts; leave it out')


def sources(tables):
    """A Prompt for each table [prompts.NAME]: all of its texts, of which the prompts of requests are parts."""
    for name, table in tables.items():
        texts = list(prompts.read_all({name: table}))
        yield prompts.Prompt(name, table.get('kind', name), '\n\n'.join(prompt.text for prompt in texts))


def requests_of(workload, ids, begin, seed, level):
    """The requests of a level; another level has others of the same lengths, since guesses may come from all texts that an engine has had.
    `ids`: the tokens of the text; `begin`: those with which each prompt begins (BOS). Prompts begin at different tokens of the text, and go
    on at its beginning when it ends. Raises Problem if it is too short."""
    if len(ids) < workload.requests:
        raise Problem(f'the texts of the prompts have {len(ids)} tokens, too few for {workload.requests} different requests; '
                      'give longer ones')
    lengths, found = random.Random(f'lengths {seed}'), []
    for i, at in enumerate(random.Random(f'prompts {seed} {level}').sample(range(len(ids)), workload.requests)):
        length, answer = lengths.choice(workload.prompt_tokens), lengths.choice(workload.answer_tokens)
        own = [ids[(at + j) % len(ids)] for j in range(max(1, length - len(begin)))]
        found.append(Request((*begin, *own), answer, (seed + i) % MAX_SEED))
    return found


def arrivals(rate, requests, seed, repeat):
    """Seconds after the start at which requests arrive, as a Poisson process. At another rate, the same times are stretched."""
    draw, at, found = random.Random(f'arrivals {seed} {repeat}'), 0.0, []
    for _ in range(requests):
        found.append(at)
        at += draw.expovariate(1) / rate
    return found
