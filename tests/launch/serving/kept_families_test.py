#!/usr/bin/env python3
"""Kept beginnings in small models of every family, with sliding windows and latent attention, too: each text is the one that is computed
without them. kept_families_test.py YAMATA WRITE_TINY_MODEL"""
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

WRITER, PROGRAM = sys.argv.pop(2), sys.argv.pop(1)
FLAGS = ['-t', '1', '-c', '256', '-b', '16']  # a context longer than windows with their guesses


class Engine:
    def __init__(self, model):
        self.process = subprocess.Popen([PROGRAM, 'engine', '-m', model, *FLAGS], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.vocabulary = self.wait(lambda line: line['is'] == 'ready')['vocab']

    def wait(self, wanted):
        return next(line for line in map(json.loads, self.process.stdout) if wanted(line))

    def ask(self, prompt, most, cache):
        """(ids, tokens of the prompt that were in the cache)."""
        request = {'do': 'submit', 'id': 1, 'prompt': prompt, 'max_tokens': most, 'cache': cache,
                   'sampling': {'ignore_eos': True, 'temperature': 1.5, 'seed': 3}}
        self.process.stdin.write(json.dumps(request).encode() + b'\n')
        self.process.stdin.flush()
        ids = []
        while (line := self.wait(lambda line: line.get('id') == 1 and line['is'] != 'prompt'))['is'] == 'text':
            ids += line['ids']
        return ids, line['usage']['cached_tokens']

    def end(self):
        self.process.stdin.close()
        code = self.process.wait(60)
        self.process.stdout.close()
        return code


class KeptTest(unittest.TestCase):
    def check(self, model):
        draw, engine = random.Random(3), Engine(model)
        some = lambda count: [draw.randrange(3, engine.vocabulary) for _ in range(count)]  # noqa: E731
        beginning = some(120)
        text, all_cached, asked = beginning[:60], 0, []
        for kind in [0, 1, 2, 3] * 3:
            prompts = beginning[:draw.randint(20, 110)] + some(5), text + some(3), text[:len(text) * 2 // 3] + [5, 6], text + [7]
            prompt = prompts[kind][:200]
            most = draw.choice([1, 5, 30])
            ids, cached = engine.ask(prompt, most, True)
            asked.append((prompt, most, ids))
            text, all_cached = prompt + ids, all_cached + cached
        for prompt, most, ids in asked:
            self.assertEqual(engine.ask(prompt, most, False), (ids, 0))
        self.assertGreater(all_cached, 200)
        self.assertEqual(engine.end(), 0)

    def test_families(self):
        with tempfile.TemporaryDirectory() as folder:
            model = str(pathlib.Path(folder, 'model.gguf'))
            for variant in subprocess.run([WRITER, '--list'], capture_output=True, text=True, check=True).stdout.split():
                subprocess.run([WRITER, variant, 'F32', model], check=True)
                with self.subTest(variant):
                    self.check(model)


if __name__ == '__main__':
    unittest.main()
