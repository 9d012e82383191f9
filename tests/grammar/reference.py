#!/usr/bin/env python3
"""Compares compiled schemas with the package jsonschema: random schemas; texts that the grammar writes are valid, values that a schema
describes are read, and changed texts are read only if they are valid.

usage: reference.py PROBE"""
import json
import os
import random
import re
import subprocess
import sys

try:
    import jsonschema
except ImportError:
    print('the package python3-jsonschema is missing')
    sys.exit(77)

THOROUGH = bool(os.environ.get('YAMATA_THOROUGH'))
SCHEMAS = 6000 if THOROUGH else 150
PATTERNS = {'^[a-c]{1,3}$': 'ab', '^x+y?$': 'xxy', 'q': 'aqa', '^(ab|cd)*$': 'abcd', '^\\d{2}-\\w$': '12-z', '^[^"]*$': 'é\\'}


class Case:
    """A random schema and values of it."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.names = iter('abcdefghijklmnopqrstuvwxyz' * 50)

    def one(self, values):
        return self.random.choice(values)

    def schema(self, depth=0):
        kinds = ['null', 'boolean', 'integer', 'number', 'string', 'pattern', 'enum', 'const', 'any']
        kinds += ['object', 'array', 'tuple', 'anyOf', 'types'] * (2 if depth < 3 else 0)
        return getattr(self, 'of_' + self.one(kinds))(depth)

    def of_null(self, _):
        return {'type': 'null'}

    def of_boolean(self, _):
        return {'type': 'boolean', 'title': 'yes or no'}

    def of_any(self, _):
        return self.one([True, {}, {'description': 'anything'}])

    def bounds(self, draw):
        low = draw()
        found = {}
        if self.random.random() < .6:
            found[self.one(['minimum', 'exclusiveMinimum'])] = low
        if self.random.random() < .6:
            found[self.one(['maximum', 'exclusiveMaximum'])] = low + abs(draw()) + 2
        return found

    def of_integer(self, _):
        return {'type': 'integer', **self.bounds(lambda: self.random.randint(-300, 300))}

    def of_number(self, _):
        return {'type': 'number', **self.bounds(lambda: round(self.random.uniform(-30, 30), self.random.randint(0, 4)))}

    def of_string(self, _):
        low = self.random.randint(0, 3)
        return {'type': 'string', **self.one([{}, {'minLength': low}, {'maxLength': low + 2}, {'minLength': low, 'maxLength': low + 3}])}

    def of_pattern(self, _):
        return {'type': 'string', 'pattern': self.one(list(PATTERNS))}

    def constant(self):
        return self.one([None, True, 0, -3, 1.5, '', 'text', 'é"\\\n', [], [1, 'x'], {}, {'k': [None]}])

    def of_enum(self, _):
        return {'enum': [self.constant() for _ in range(self.random.randint(1, 4))]}

    def of_const(self, _):
        return {'const': self.constant()}

    def of_types(self, _):
        return {'type': self.random.sample(['null', 'boolean', 'integer', 'string'], 2)}

    def of_array(self, depth):
        low = self.random.randint(0, 2)
        sizes = self.one([{}, {'minItems': low}, {'maxItems': low + 1}, {'minItems': low, 'maxItems': low + 2}])
        return {'type': 'array', 'items': self.schema(depth + 1), **sizes}

    def of_tuple(self, depth):
        items = [self.schema(depth + 1) for _ in range(self.random.randint(1, 3))]
        return {'type': 'array', 'prefixItems': items, **self.one([{}, {'items': False}, {'items': self.schema(depth + 1)}])}

    def of_object(self, depth):
        names = self.random.sample(['a', 'b', 'ab', 'name', 'é', 'q"q', 'long name'], self.random.randint(0, 4))
        found = {'type': 'object', 'properties': {name: self.schema(depth + 1) for name in names}}
        found['required'] = [name for name in names if self.random.random() < .5]
        more = self.random.random()
        if more < .3:
            found['additionalProperties'] = self.one([False, True, self.schema(depth + 1)])
        return found

    def of_anyOf(self, depth):
        return {'anyOf': [self.schema(depth + 1) for _ in range(self.random.randint(1, 3))]}

    def value(self, schema):
        """A value that the schema describes, as the grammar writes it; ValueError: not easily found."""
        if schema is True or not set(schema) - {'description'}:
            return self.constant()
        if 'const' in schema:
            return schema['const']
        if 'enum' in schema:
            return self.one(schema['enum'])
        if 'anyOf' in schema:
            return self.value(self.one(schema['anyOf']))
        kind = schema['type']
        return getattr(self, 'value_of_' + (kind if isinstance(kind, str) else self.one(kind)))(schema)

    def value_of_null(self, _):
        return None

    def value_of_boolean(self, _):
        return self.one([False, True])

    def value_of_integer(self, schema):
        return self.number(schema, lambda: self.random.randint(-400, 900))

    def value_of_number(self, schema):
        return self.number(schema, lambda: self.one([self.random.randint(-40, 90), round(self.random.uniform(-40, 90), 3)]))

    def number(self, schema, draw):
        for _ in range(200):
            found = draw()
            if jsonschema.Draft202012Validator(schema).is_valid(found):
                return found
        raise ValueError

    def value_of_string(self, schema):
        if 'pattern' in schema:
            return PATTERNS[schema['pattern']]
        length = self.random.randint(schema.get('minLength', 0), schema.get('maxLength', schema.get('minLength', 0) + 3))
        return ''.join(self.one('ab é"\\\n😀') for _ in range(length))

    def value_of_array(self, schema):
        found = [self.value(item) for item in schema.get('prefixItems', [])]
        rest = schema.get('items', not found)
        if rest is False or ('prefixItems' in schema and 'items' not in schema):
            return found
        low = max(len(found), schema.get('minItems', 0))
        while len(found) < self.random.randint(low, min(schema.get('maxItems', low + 2), low + 2)):
            found.append(self.value(rest))
        return found

    def value_of_object(self, schema):
        names = [n for n in schema['properties'] if n in schema['required'] or self.random.random() < .5]
        found = {name: self.value(schema['properties'][name]) for name in names}
        more = schema.get('additionalProperties', False)
        if more is not False and self.random.random() < .5:
            found['further'] = self.value(more)
        return found

    def changed(self, text):
        """The text with a few bytes changed."""
        for _ in range(self.random.randint(1, 2)):
            at = self.random.randint(0, len(text))
            text = text[:at] + self.one(['', '', self.one('0129-.e"{}[],: aéx')]) + text[at + self.random.randint(0, 2):]
        return text


def is_valid(validator, text):
    try:
        return validator.is_valid(json.loads(text))
    except (ValueError, RecursionError):
        return False


def texts_of(case, schema):
    """Texts that must be read, and others."""
    good = []
    for _ in range(8):
        try:
            value = case.value(schema)
        except ValueError:
            continue
        style = case.one([{}, {'indent': 2}, {'separators': (',', ':')}])
        good.append(json.dumps(value, ensure_ascii=False, **style))
    return good, [case.changed(text) for text in good for _ in range(6)]


def check(seed, probe):
    case = Case(seed)
    schema = case.schema()
    validator = jsonschema.Draft202012Validator(schema)
    good, other = texts_of(case, schema)
    question = {'schema': schema, 'accepts': good + other, 'generate': 20, 'seed': seed}
    print(json.dumps(question), file=probe.stdin, flush=True)
    answer = json.loads(probe.stdout.readline())
    if 'refused' in answer:
        return [] if 'no JSON value is valid' in answer['refused'] else [answer['refused']]
    wrong = [f'not read: {text}' for text, read in zip(good, answer['accepted']) if not read and exponent_free(text)]
    wrong += [f'read: {text}' for text, read in zip(other, answer['accepted'][len(good):]) if read and not is_valid(validator, text)]
    return wrong + [f'written: {text}' for text in answer['documents'] if text and not is_valid(validator, text)]


def exponent_free(text):
    """Bounded numbers are written without an exponent."""
    return not re.search(r'\de[-+]?\d', text)


def main():
    failures = 0
    with subprocess.Popen([sys.argv[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding='utf-8') as probe:
        for seed in range(SCHEMAS):
            for wrong in check(seed, probe):
                failures += 1
                print(f'seed {seed}, schema {json.dumps(Case(seed).schema())}: {wrong}')
        probe.stdin.close()
    sys.exit(failures > 0)


if __name__ == '__main__':
    main()
