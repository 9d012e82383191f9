#!/usr/bin/env python3
"""Mutated lines of the protocol over pipes: each gets an answer of its form, the engine goes on as before, and its memory does not grow.
The argument is the program."""
import copy
import json
import math
import os
import pathlib
import random
import subprocess
import sys
import unittest

PROGRAM = sys.argv.pop(1) if len(sys.argv) > 1 else 'build/yamata'
MODEL = str(pathlib.Path(__file__).resolve().parents[3] / 'models/tales-target-q8_0.gguf')
LINES = 100_000 if os.environ.get('YAMATA_THOROUGH') else 2000
ENDS = {'done', 'refused', 'error', 'tokenized', 'detokenized'}
SCHEMA = {'type': 'object', 'required': ['b'], 'properties': {
    'a': {'enum': [1, None, 'x']}, 'b': {'type': 'array', 'items': {'type': 'boolean'}, 'maxItems': 2}}}
WHOLE = [
    {'do': 'submit', 'id': 7, 'prompt': 'Once upon', 'max_tokens': 2, 'sampling': {'temperature': .8, 'seed': 3, 'logit_bias': {'5': -1}}},
    {'do': 'submit', 'id': 'x', 'prompt': [1, 5, 9], 'kept': [4, 5], 'max_tokens': 4, 'stop': ['a', 'the'], 'logprobs': 2, 'special': True},
    {'do': 'submit', 'id': 8, 'prompt': 'The', 'max_tokens': 3, 'schema': SCHEMA, 'schema_after': 'e', 'cache': False,
     'logits_checksum': True},
    {'do': 'submit', 'id': -1, 'prompt': 'A', 'max_tokens': 3, 'sampling': {
        'top_k': 3, 'top_p': .5, 'min_p': .1, 'repeat_penalty': 1.1, 'repeat_last_n': -1, 'presence_penalty': 1, 'frequency_penalty': 1,
        'ignore_eos': True}},
    {'do': 'cancel', 'id': 7}, {'do': 'tokenize', 'id': 8, 'text': 'a b', 'special': False, 'bos': True},
    {'do': 'detokenize', 'id': 9, 'ids': [1, 2, 3], 'special': True}]
VALUES = [None, True, 0, -1, 1.5, 1e300, 2**31, 2**63, 2**64, -2**63, 10**30, math.inf, math.nan, '', 'x', '\0', '\ud800', 'é' * 99, [], {},
          [[]], [None], [-1], [2**40], ['a', 1], {'a': 1}, {'1': 1}, [1] * 300,
          'a' * 20_000, {'type': 'string'}, 'submit', 'cancel', 'tokenize']
PIECES = ['null', '-1', '1e999', '[' * 300, '{}', '""', '"\\ud800"', '9' * 25, 'true', ',', '\xff', '\\u0000', '{"do":', ']', '}', '"', ':']


class Mutator:
    def __init__(self, seed):
        self.chance = random.Random(seed)

    def line(self):
        message = json.loads(json.dumps(self.chance.choice(WHOLE)))
        for _ in range(self.chance.randint(0, 2)):
            self.change_value(message)
        text = json.dumps(message, ensure_ascii=self.chance.random() < .5).encode('utf-8', 'surrogatepass')
        for _ in range(self.chance.choice([0, 0, 1, 2])):
            text = self.change_bytes(text)
        return text.replace(b'\n', b' ').replace(b'"stop"}', b'"stop "}')

    def change_value(self, message):
        """Somewhere in the message."""
        part = message
        while True:
            place = self.chance.choice(list(part)) if isinstance(part, dict) else self.chance.randrange(len(part))
            inner = part[place]
            if isinstance(inner, (dict, list)) and inner and self.chance.random() < .6:
                part = inner
                continue
            if self.chance.random() < .2:
                del part[place]
            else:
                part[place] = copy.deepcopy(self.chance.choice(VALUES))
            return

    def change_bytes(self, text):
        at = self.chance.randint(0, len(text))
        piece = self.chance.choice(PIECES).encode('latin1')
        return self.chance.choice([text[:at] + piece + text[at:], text[:at] + text[at + self.chance.randint(1, 8):],
                                   text[:at] + bytes([self.chance.randrange(256)]) + text[at + 1:],
                                   text[:at] + piece + text[at + self.chance.randint(1, 6):]])


def meaning(line):
    """What a line asks for, if it is read generously."""
    try:
        read = json.loads(line.decode('utf-8', 'replace'), strict=False)
    except (ValueError, RecursionError):
        return None
    return read.get('do') if isinstance(read, dict) else None


class Engine:
    def __init__(self):
        self.process = subprocess.Popen([PROGRAM, 'engine', '-m', MODEL, '-t', '1', '-c', '64'], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.read(lambda message: message['is'] == 'ready')

    def send(self, line):
        self.process.stdin.write(line + b'\n')
        self.process.stdin.flush()

    def read(self, last):
        """Messages up to the first for which this is true."""
        found, progress = [], []
        for line in self.process.stdout:
            found.append(json.loads(line))
            if found[-1]['is'] == 'alive':
                progress.append(found[-1]['progress'])
                if progress[-20:] == [progress[-1]] * 20:
                    raise AssertionError('the engine is idle, and a line has got no answer')
            if last(found[-1]):
                return found
        raise AssertionError(f'the engine has ended: {self.process.wait()}')

    def answers(self, line, number):
        """The messages that end what a line has asked for."""
        self.send(line)
        # Lines with a schema are read behind others that take long.
        self.send(json.dumps({'do': 'tokenize', 'id': f'sync {number}', 'text': 'x', 'schema': None}).encode())
        ends = [m for m in self.read(lambda m: m.get('id') == f'sync {number}')[:-1] if m['is'] in ENDS]
        if not ends and meaning(line) not in ('cancel', 'stop') and line.strip():
            ends = self.read(lambda m: m['is'] in ENDS)[-1:]
        return ends

    def memory_mib(self):
        status = pathlib.Path(f'/proc/{self.process.pid}/status').read_text()
        return int(status.split('RssAnon:')[1].split()[0]) / 1024


class LinesTest(unittest.TestCase):
    def test_each_line_gets_an_answer_of_its_form(self):
        engine, mutator, before = Engine(), Mutator(3), None
        wanted = self.text(engine)
        for number in range(LINES):
            if number == LINES // 4:
                before = engine.memory_mib()
            line = mutator.line()
            with self.subTest(number=number, line=line):
                ends = engine.answers(line, number)
            self.assertLessEqual(len(ends), 1, line)
            for message in ends:
                self.check(message, line)
        self.assertEqual(self.text(engine), wanted)
        after = engine.memory_mib()
        print(f'{LINES} lines: {before:.1f} MiB after a quarter, {after:.1f} MiB at the end', file=sys.stderr)
        self.assertLess(after, before + 24)  # texts to guess from may take 15 MB
        engine.process.stdin.close()
        self.assertEqual(engine.process.wait(60), 0)
        engine.process.stdout.close()

    def text(self, engine):
        engine.send(json.dumps({'do': 'submit', 'id': 'own', 'prompt': 'Once upon', 'max_tokens': 12}).encode())
        return [token for m in engine.read(lambda m: m['is'] == 'done') if m['is'] == 'text' for token in m['ids']]

    def check(self, message, line):
        self.assertLess(len(json.dumps(message)), 1 << 20)
        if message['is'] == 'done':
            self.assertIn(message['reason'], ('stop', 'length', 'context', 'cancelled'), line)
            self.assertGreaterEqual(message['usage']['prompt_tokens'], 1)
        elif message['is'] == 'refused':
            self.assertIn(message['code'], ('bad_value', 'context_length_exceeded', 'full'), line)
            self.assertTrue(message['message'] and '\n' not in message['message'], line)
        elif message['is'] == 'error':
            self.assertLess(len(message['message']), 400, line)
        elif message['is'] == 'tokenized':
            self.assertTrue(all(type(token) is int for token in message['ids']), line)
        else:
            self.assertIsInstance(message['text'], str)


if __name__ == '__main__':
    unittest.main()
