#!/usr/bin/env python3
"""yamata engine with several texts at a time, in random mixes, layouts and with every guess source: each text, and the bits of its logits,
are those of the same request alone. The argument is the program."""
import os
import random
import sys
import unittest

sys.dont_write_bytecode = True
from engine_process import MODELS, Engine  # noqa: E402

PROGRAM = sys.argv.pop(1) if len(sys.argv) > 1 else 'build/yamata'
THOROUGH = bool(os.environ.get('YAMATA_THOROUGH'))
REQUESTS = 400 if THOROUGH else 40  # different ones
MIXES = 250 if THOROUGH else 8      # per layout, of which there are eight
IN_A_MIX = 8
BEGINNINGS = ['Once upon a time there was a king who had three sons', 'The youngest of them went into the wood', 'Once',
              'Once upon a time there was a king and his daughter, who lived in a castle by the sea, and every evening they went down']
SCHEMAS = [{'type': 'object', 'properties': {'name': {'type': 'string', 'maxLength': 8}, 'age': {'type': 'integer'}},
            'required': ['name', 'age'], 'additionalProperties': False}, {'enum': ['red', 'green', 'blue']}]


def random_request(seed):
    draw = random.Random(seed)
    sampling = {'temperature': draw.choice([0, 0, 0.9, 1.5]), 'seed': draw.randint(0, 99), 'repeat_penalty': draw.choice([1, 1, 1.2])}
    others = {'top_k': [0, 3, 50], 'top_p': [0.5, 1], 'min_p': [0, 0.1], 'ignore_eos': [True]}
    sampling |= {name: draw.choice(values) for name, values in others.items() if draw.random() < 0.3}
    request = {'prompt': draw.choice(BEGINNINGS) + draw.choice(['', ' and', '. Then']), 'max_tokens': draw.randint(1, 24),
               'sampling': sampling, 'stop': draw.choice([[], [], ['the', ' of them']]), 'logits_checksum': draw.random() < 0.5,
               'cache': draw.random() < 0.8}
    if draw.random() < 0.2:
        request |= {'schema': draw.choice(SCHEMAS), 'stop': []}
    if draw.random() < 0.2:
        request['logprobs'] = 2
    return request


class Answer:
    def __init__(self):
        self.text, self.ids, self.logprobs, self.end = '', [], [], None

    def take(self, line):
        if line['is'] == 'text':
            self.text, self.ids = self.text + line['text'], self.ids + line['ids']
            self.logprobs += line.get('logprobs', [])
        elif line['is'] != 'prompt':
            self.end = line

    def said(self):
        return self.end.get('reason'), self.end.get('logits_checksum'), self.text, self.ids


def near(a, b):
    """Whether log-probabilities are the same. They are parts of a sum over a row's logits, which is rounded as a layout adds it up."""
    if isinstance(a, float):
        return abs(a - b) < 1e-4
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(near(value, b[name]) for name, value in a.items())
    return len(a) == len(b) and all(map(near, a, b)) if isinstance(a, list) else a == b


class Alone:
    """The answers of an engine without guesses to one request after another."""
    engine, known = None, {}

    @classmethod
    def answer(cls, seed):
        if not cls.engine:
            cls.engine = Engine(PROGRAM, 1, '--slots', '1', '--strategy', 'iterative')
        if seed not in cls.known:
            cls.engine.send(do='submit', id=seed, **random_request(seed) | {'cache': False})
            answer = cls.known[seed] = Answer()
            while not answer.end:
                answer.take(cls.engine.wait(lambda line: line.get('id') == seed))
        return cls.known[seed]


def play(engine, seed):
    """Plays a mix: (seeds, answers, by their numbers). Each request comes, or is cancelled, after so many lines."""
    draw = random.Random(seed)
    seeds = {f'{seed}.{n}': draw.randrange(REQUESTS) for n in range(IN_A_MIX)}
    comes = {number: draw.choice([0, draw.randint(0, 20)]) for number in seeds}
    cancelled = {number: draw.randint(0, 30) for number in seeds if draw.random() < 0.2}
    answers, lines = {number: Answer() for number in seeds}, 0
    waiting, asked = dict(comes), set()
    while not all(answer.end for answer in answers.values()):
        idle = all(answers[number].end for number in asked)
        for number, after in sorted(waiting.items(), key=lambda item: item[1]):
            if lines >= after or idle:
                engine.send(do='submit', id=number, **random_request(seeds[number]))
                asked.add(number)
                del waiting[number]
                idle = False
        for number, after in cancelled.items():
            if lines == after and number in asked:
                engine.send(do='cancel', id=number)
        line = engine.wait(lambda line: line.get('id') in answers)
        answers[line['id']].take(line)
        lines += 1
    return seeds, answers


class EngineMixesTest(unittest.TestCase):
    def check(self, ranks, *flags, guesses=True):
        engine, accepted, together = Engine(PROGRAM, ranks, *flags), 0, 0
        for mix in range(MIXES):
            seeds, answers = play(engine, f'{ranks} {flags} {mix}')
            for number, answer in answers.items():
                self.assertEqual(answer.end['is'], 'done', (mix, number, answer.end))
                alone = Alone.answer(seeds[number])
                if answer.end['reason'] == 'cancelled':
                    self.assertEqual(answer.ids, alone.ids[:len(answer.ids)], (mix, number))
                    continue
                self.assertEqual(answer.said(), alone.said(), (mix, number, random_request(seeds[number])))
                self.assertTrue(near(answer.logprobs, alone.logprobs), (mix, number, answer.logprobs, alone.logprobs))
                accepted += answer.end['speculation']['accepted']
                together += 1
        self.assertGreater(together, 3 * MIXES)
        self.assertEqual(accepted > 0, guesses)
        self.assertEqual(engine.end(), 0)

    def test_one_node(self):
        self.check(1)

    def test_one_node_without_guesses(self):
        self.check(1, '--strategy', 'iterative', '--slots', '4', guesses=False)

    def test_a_pipeline_with_a_drafter(self):
        self.check(4, '-md', str(MODELS / 'tales-draft-q8_0.gguf'))

    def test_a_drafter_that_the_texts_wait_for(self):
        self.check(3, '-md', str(MODELS / 'tales-draft-q8_0.gguf'), '--strategy', 'speculative', '--no-lookup')

    def test_a_draft_on_the_unit_of_the_target(self):
        self.check(1, '-md', str(MODELS / 'tales-draft-q8_0.gguf'))

    def test_heads_on_a_rank(self):
        self.check(3, '--heads', str(MODELS / 'tales-medusa.safetensors'), '--layer-split', '1,1/1')

    def test_a_group(self):
        self.check(2, '--layer-split', '0.6+0.4')

    def test_a_small_cache(self):
        self.check(2, '--cache-tokens', '160', '--slots', '6')

    @classmethod
    def tearDownClass(cls):
        if Alone.engine:
            Alone.engine.end()


if __name__ == '__main__':
    unittest.main()
