"""Checks of the values of an experiment's TOML file; a wrong one is a Problem."""
import math

from common.problem import Problem, whole

MAX_COUNT = 1_000_000  # of repeats and ranks
MAX_RUNS = 100_000  # of which a list is made; a day or more
MAX_TOKENS = 2**31 - 1  # what -n takes
MAX_SEED = 2**64 - 1  # what -s takes
# Flags that the runner gives to yamata run, and what to write instead.
GIVEN = {'-m': 'write [models]', '--model': 'write [models]', '-p': 'write [prompts]', '--prompt': 'write [prompts]',
         '-f': 'write [prompts]', '--file': 'write [prompts]', '-n': 'write tokens', '--predict': 'write tokens',
         '--temp': 'write temperature', '-s': 'write seed', '--seed': 'write seed', '--json': 'the JSON of each run is in runs/'}
SWEPT = {'--temp', '-s', '--seed'}  # may be swept all the same: the swept flag has its own column


def as_list(value):
    return value if isinstance(value, list) else [value]


def refuse_unprintable(value, where=''):
    """Raises Problem for a text or a name with a NUL, which neither a command nor the name of a file can have, and for a number that cannot
    be shown. Only TOML's hexadecimal numbers can have so many digits."""
    if isinstance(value, str) and '\0' in value:
        raise Problem(f'{where} has a NUL character (\\u0000), which no command can have; remove it')
    if isinstance(value, int) and abs(value) >= 10**100:
        raise Problem(f'{where} is a number of more than 100 digits; give a smaller one')
    if isinstance(value, list):
        for one in value:
            refuse_unprintable(one, where)
    if isinstance(value, dict):
        for key, its in value.items():
            refuse_unprintable(key, f'a name in {where or "the file"}')
            refuse_unprintable(its, f'{where}.{key}' if where else key)


def table_of(parent, key, form):
    """The table at a key; empty if it is missing."""
    table = parent.get(key, {})
    if not isinstance(table, dict):
        raise Problem(f'{key} is {table!r}, not a table; write {form}')
    return table


def refuse_unknown(where, table, known):
    if not isinstance(table, dict):
        raise Problem(f'{where} is not a table; write [{where}]')
    for key in table.keys() - known:
        raise Problem(f"{where}: '{key}' is not known; it may have {', '.join(sorted(known))}")


def number(table, key, fallback, least):
    value = table.get(key, fallback)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value < math.inf:
        raise Problem(f'{key} is {value!r}; give a number from {least} up')
    return value


def whole_number(where, value, least=1, most=MAX_COUNT):
    if not whole(value, least):
        raise Problem(f'{where} is {value!r}; give a whole number from {least} up')
    if value > most:
        raise Problem(f'{where} is {value}; give at most {most}')
    return value


def values(table, key, fallback, right, what):
    """The value of a key, or the list of its values."""
    found = as_list(table.get(key, fallback))
    if not found:
        raise Problem(f'{key} has no values; give {what}, or leave it out')
    for value in found:
        if not right(value):
            raise Problem(f'{key} is {value!r}; give {what}, or a list of them')
    return found


def whole_numbers(table, key, fallback, least, most):
    """The value of a key, or the list of its values, which are whole numbers."""
    found = values(table, key, fallback, lambda value: whole(value, least), f'a whole number from {least} up')
    return [whole_number(key, value, least, most) for value in found]


def flag_of(where, table, key, default=True):
    """The value of a key that is true or false. `where`: the name of the table; empty: the file."""
    value = table.get(key, default)
    if not isinstance(value, bool):
        raise Problem(f'{where}: {key} is {value!r}; give true or false'.removeprefix(': '))
    return value


def is_temperature(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < math.inf


def require_text(where, value, remedy):
    """A text that is not blank."""
    if not isinstance(value, str) or not value.strip():
        raise Problem(f'{where} is {value!r}; {remedy}')
    return value


def refuse_given(where, flag):
    """Raises Problem for a flag that the runner gives itself: the results would name another value than the one that holds."""
    if remedy := GIVEN.get(flag.split('=')[0]):
        raise Problem(f'{where}: {flag} is given by launch/experiment itself; {remedy}')


def run_flags(where, value):
    """The words of flags of yamata run."""
    words = words_of(where, value)
    for word in words:
        refuse_given(where, word)
    return words


def words_of(where, value):
    if not isinstance(value, list) or not all(isinstance(word, (str, int, float)) for word in value):
        raise Problem(f'{where} is {value!r}; give a list of words, such as ["--strategy", "pipeinfer"]')
    return [str(word) for word in value]
