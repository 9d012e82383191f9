"""Reads the fields of a request's JSON. A field that is null counts as absent; a wrong one raises HttpError (400) that names it."""
import math

from .http_request import HttpError


def refuse(param, message):
    raise HttpError(400, message, 'invalid_value', param)


def shown(value):
    text = repr(value)
    return text if len(text) <= 40 else text[:40] + '…'


class Fields:
    def __init__(self, body):
        self.body = body

    def get(self, name, kind, what, default=None):
        """The value, which is of a Python type, or the default."""
        value = self.body.get(name)
        if value is None:
            return default
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            refuse(name, f'{name} is {shown(value)}, not {what}')
        return value

    def number(self, name, least, most, default=None):
        value = self.get(name, (int, float), 'a number', default)
        if value is not None and not (least <= value <= most and math.isfinite(value)):
            refuse(name, f'{name} is {shown(value)}, not between {least:g} and {most:g}')
        return value

    def whole(self, name, least, most, default=None):
        value = self.number(name, -math.inf, math.inf, default)
        if isinstance(value, float):
            if value != int(value):
                refuse(name, f'{name} is {shown(value)}, not a whole number')
            value = int(value)
        if value is not None and not least <= value <= most:
            refuse(name, f'{name} is {shown(value)}, ' + (f'less than {least}' if value < least else f'more than {most}'))
        return value

    def flag(self, name, default=False):
        return self.get(name, bool, 'true or false', default)

    def text(self, name, default=None):
        return self.get(name, str, 'a text', default)

    def list(self, name, default=None):
        return self.get(name, list, 'a list', default)

    def object(self, name, default=None):
        return self.get(name, dict, 'an object', default)

    def one_of(self, name, choices, default=None):
        value = self.text(name, default)
        if value is not None and value not in choices:
            refuse(name, f'{name} is {shown(value)}, not one of {", ".join(choices)}')
        return value
