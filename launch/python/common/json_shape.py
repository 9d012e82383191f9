"""Checks values that were read from a JSON file before a script uses them."""
import json

from .problem import Problem, whole

LARGEST = 1e100  # of a number: sums and products of a few are still finite


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < LARGEST


# Leaves of a shape: a function that says whether a value is right, and what it is then.
TEXT = (lambda value: isinstance(value, str)), 'a text'
POSITIVE = (lambda value: is_number(value) and value > 0), 'a number above 0'
NOT_NEGATIVE = (lambda value: is_number(value) and value >= 0), 'a number from 0 up'
INDEX = (lambda value: whole(value, 0) and value < LARGEST), 'a whole number from 0 up'


def fault(value, shape, place=''):
    """The first thing that is wrong with a value; empty: nothing. `shape`: {key: shape of its value} for an object, which may have other
    keys, too; [shape of each] for a list that is not empty; or a leaf."""
    if isinstance(shape, dict):
        if not isinstance(value, dict):
            return f'{place or "it"} is not an object'
        dot = f'{place}.' if place else ''
        if lacks := [key for key in shape if key not in value]:
            return f'{dot}{lacks[0]} is missing'
        parts = ((value[key], its, f'{dot}{key}') for key, its in shape.items())
    elif isinstance(shape, list):
        if not isinstance(value, list) or not value:
            return f'{place} is not a list, or empty'
        parts = ((one, shape[0], f'{place}[{i}]') for i, one in enumerate(value))
    else:
        right, what = shape
        return '' if right(value) else f'{place} is {json.dumps(value)[:40]}, not {what}'
    return next(filter(None, (fault(*part) for part in parts)), '')


def require(path, kind, wrong, remedy):
    """Raises Problem (2) if something is wrong with the file at the path, which should be of a kind."""
    if wrong:
        raise Problem(f'{path} is not {kind}: {wrong}; {remedy}', 2)
