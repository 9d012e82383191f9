#!/usr/bin/env python3
"""Several texts at a time of a model with states, for which a draft with states guesses. states_texts_test.py YAMATA WRITE_TINY_MODEL"""
import os
import random
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
from engine_process import Engine  # noqa: E402

WRITER, PROGRAM = sys.argv.pop(2), sys.argv.pop(1)
TEXTS = 4


class StatesTest(unittest.TestCase):
    def answers(self, engine, first):
        """(ids, guesses) of the texts by number, all at a time, or one after the other."""
        found, at_a_time = {}, TEXTS if first > TEXTS else 1
        for begin in range(first, first + TEXTS, at_a_time):
            for number in range(begin, begin + at_a_time):
                draw = random.Random(number % TEXTS)
                engine.send(do='submit', id=number, prompt=[draw.randrange(260, 500) for _ in range(draw.randint(3, 30))], max_tokens=24,
                            cache=False, sampling={'ignore_eos': True, 'temperature': 0})
            ids = {number: [] for number in range(begin, begin + at_a_time)}
            while len(found) < begin + at_a_time - first:
                line = engine.wait(lambda line: line['is'] in ('text', 'done'))
                if line['is'] == 'text':
                    ids[line['id']] += line['ids']
                else:
                    found[line['id'] % TEXTS] = ids[line['id']], line['speculation']['guessed']
        return found

    def test_a_draft_guesses_for_all_of_them(self):
        with tempfile.TemporaryDirectory() as folder:
            model = os.path.join(folder, 'model.gguf')
            subprocess.run([WRITER, 'qwen3next', 'F16', model], check=True)
            engine = Engine(PROGRAM, 2, '-m', model, '-md', model, '--layer-split', '1.0/1.0', '--slots', str(TEXTS), '--no-lookup',
                            '--strategy', 'speculative', '--policy', 'chain', '-pa', '0.01')
            self.assertEqual(engine.ready['slots'], TEXTS)
            alone, together = self.answers(engine, 1), self.answers(engine, TEXTS + 1)
            self.assertEqual(engine.end(), 0)
        self.assertEqual({text: ids for text, (ids, _) in together.items()}, {text: ids for text, (ids, _) in alone.items()})
        for text, (_, guesses) in together.items():
            self.assertGreater(guesses, 4, text)


if __name__ == '__main__':
    unittest.main()
