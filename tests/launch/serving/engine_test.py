#!/usr/bin/env python3
"""Tests launch/serve with the engine itself, alone and under mpirun: texts are those of `yamata run`, also at once, behind kept beginnings
and after requests that were cancelled. engine_test.py PROGRAM"""
import concurrent.futures
import json
import os
import pathlib
import re
import random
import signal
import subprocess
import sys
import unittest

import scene

PROGRAM = pathlib.Path(sys.argv[1]).resolve()
MODEL = scene.ROOT / 'models' / 'tales-target-q8_0.gguf'
ROUNDS = 200 if scene.THOROUGH else 8


def run(prompt, count, **sampling):
    """The text of `yamata run`."""
    flags = {'temperature': '--temp', 'seed': '-s', 'top_k': '--top-k', 'top_p': '--top-p', 'min_p': '--min-p',
             'repeat_penalty': '--repeat-penalty'}
    words = [word for name, value in sampling.items() for word in (flags[name], str(value))]
    done = subprocess.run([PROGRAM, 'run', '-m', MODEL, '-c', '512', '-p', prompt, '-n', str(count), *words], capture_output=True,
                          check=True, env=os.environ | {'OMPI_ALLOW_RUN_AS_ROOT': '1', 'OMPI_ALLOW_RUN_AS_ROOT_CONFIRM': '1'})
    return done.stdout.decode().removesuffix('\n')


class Alone(scene.Scene):
    """On one rank."""

    RANKS = ()

    @classmethod
    def setUpClass(cls):
        cls.server = scene.Running(PROGRAM.parent, '-c', '512', *cls.RANKS, model=MODEL)
        cls.addClassCleanup(cls.finish)

    def complete(self, prompt, count, **more):
        body = {'prompt': prompt, 'max_tokens': count, 'temperature': 0, 'repeat_penalty': 1} | more
        return self.server.ask('POST', '/v1/completions', body).json()

    def text(self, prompt, count, **more):
        return self.complete(prompt, count, **more)['choices'][0]['text']

    def test_texts_are_those_of_run(self):
        chance = random.Random(57)
        beginnings = ['Once upon a time', 'The king said', 'A witch lived in a wood']
        for i in range(ROUNDS):
            prompt = chance.choice(beginnings) + chance.choice(['', ' and a queen', ', where the old fox'])
            count = chance.choice([1, 7, 40])
            sampling = chance.choice([{'temperature': 0}, {'temperature': 1.3, 'seed': i, 'top_p': 0.9, 'top_k': 50, 'min_p': 0.01},
                                      {'temperature': 0.7, 'seed': 2**63 + i, 'top_k': 40, 'top_p': 0.95, 'min_p': 0.05}])
            if i % 3 == 0:
                self.leave(prompt)
            with self.subTest(prompt=prompt, count=count, **sampling):
                self.assertEqual(self.text(prompt, count, **sampling), run(prompt, count, **sampling))

    def leave(self, prompt):
        """A client that leaves in the middle of a text."""
        with self.server.socket() as client:
            client.sendall(scene.request({'prompt': prompt, 'stream': True, 'temperature': 1}, '/v1/completions'))
            client.recv(4096)

    def test_a_text_is_the_same_at_once_in_a_stream_and_behind_a_kept_beginning(self):
        prompts = [f'Once upon a time there were {number} sisters' for number in ('two', 'three', 'four', 'five')]
        alone = [self.text(prompt, 30, cache_prompt=False) for prompt in prompts]
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            self.assertEqual(list(pool.map(lambda prompt: self.text(prompt, 30), prompts)), alone)
        again = self.complete(prompts[0], 30)
        self.assertGreater(again['usage']['prompt_tokens_details']['cached_tokens'], 4)
        self.assertEqual(again['choices'][0]['text'], alone[0])
        body = {'prompt': prompts[1], 'max_tokens': 30, 'temperature': 0, 'repeat_penalty': 1, 'stream': True}
        events = self.server.ask('POST', '/v1/completions', body).events()
        self.assertEqual(''.join(event['choices'][0]['text'] for event in events), alone[1])

    def test_a_text_ends_before_a_stop_string_of_several_tokens(self):
        whole = self.text('Once upon a time', 40)
        stop = whole[17:29]
        answer = self.complete('Once upon a time', 40, stop=[stop])['choices'][0]
        self.assertEqual((answer['text'], answer['finish_reason']), (whole[:whole.index(stop)], 'stop'))

    def test_log_probabilities_are_those_of_the_most_probable_tokens(self):
        answer = self.complete('Once upon a time', 5, logprobs=3)['choices'][0]['logprobs']
        for token, logprob, top in zip(answer['tokens'], answer['token_logprobs'], answer['top_logprobs']):
            self.assertAlmostEqual(logprob, max(top.values()), 4)
            self.assertIn(token, top)

    def test_a_prompt_that_is_too_long_is_refused_by_its_length(self):
        answer = self.server.ask('POST', '/v1/completions', {'prompt': 'king ' * 600})
        self.assertEqual((answer.status, answer.error()['code']), (400, 'context_length_exceeded'))
        self.assertIn('maximum context length is 512 tokens', answer.error()['message'])

    def test_a_chat_is_the_text_behind_its_prompt(self):
        messages = [{'role': 'user', 'content': 'Tell of a fox.'}]
        prompt = self.server.ask('POST', '/apply-template', {'messages': messages}).json()['prompt']
        chat = self.server.chat(messages=messages, max_tokens=20, repeat_penalty=1).json()['choices'][0]['message']['content']
        self.assertEqual(chat, self.text(prompt, 20))


class Batch(unittest.TestCase):
    def test_launch_run_writes_the_texts_of_run(self):
        for words in (), ('--temp', '1.2', '-s', '9', '--stop', 'king'), ('--ranks', '2', '--ignore-eos'):
            flags = ['-m', MODEL, '-p', 'Once upon a time', '-n', '60', '-t', '1', *words]
            batch = subprocess.run([sys.executable, scene.ROOT / 'launch' / 'batch', *flags], capture_output=True, text=True,
                                   env=os.environ | {'YAMATA_BUILD': str(PROGRAM.parent)})
            alone = subprocess.run([PROGRAM, 'run', *flags[:8], *(word for word in words if word not in ('--ranks', '2'))],
                                   capture_output=True, text=True)
            self.assertEqual((batch.returncode, batch.stdout), (0, alone.stdout), batch.stderr)


class Together(Alone):
    """On two ranks."""

    RANKS = '--ranks', '2'

    def test_it_ends_cleanly_with_its_ranks(self):
        server = scene.Running(PROGRAM.parent, '-c', '512', *self.RANKS, model=MODEL)
        self.assertEqual(server.end(signal.SIGTERM)[0], 0)

    def test_a_killed_rank_or_guard_changes_nothing_in_an_open_stream(self):
        server = scene.Running(PROGRAM.parent, '-c', '512', *self.RANKS, model=MODEL)
        body = {'prompt': 'Once', 'stream': True, 'max_tokens': 480, 'ignore_eos': True, 'temperature': 1.6, 'seed': 3}
        texts = []
        for guard in None, False, True:
            with server.socket() as client:
                client.sendall(scene.request(body, '/v1/completions'))
                received = client.recv(4096)
                if guard is not None:
                    os.kill(max(self.processes_of(server, guard)), signal.SIGKILL)
                while b'[DONE]' not in received:
                    received += client.recv(65536)
                lines = [json.loads(line[6:]) for line in received.decode().split('\n') if line.startswith('data: {')]
                texts.append(''.join(choice['text'] for line in lines for choice in line['choices']))
        self.assertGreater(len(texts[0]), 400)
        self.assertEqual(texts, texts[:1] * 3)
        self.assertEqual(server.ask('GET', '/health').json()['losses'], 2)
        code, rest = server.end()
        self.assertEqual((code, len(re.findall(r'the engine is lost \(rank \d \([^ )]+\) was killed by signal 9', rest))), (0, 2), rest)

    def processes_of(self, server, guards):
        """The ranks or guards that its mpirun has started."""
        from measuring.running import members
        children = pathlib.Path(f'/proc/{server.process.pid}/task/{server.process.pid}/children').read_text().split()
        command = {int(pid): pathlib.Path(f'/proc/{pid}/cmdline').read_bytes().split(b'\0') for pid in children}
        mpirun = next(pid for pid, words in command.items() if b'mpirun' in words[0])
        started = {int(pid) for pid in pathlib.Path(f'/proc/{mpirun}/task/{mpirun}/children').read_text().split()}
        return [pid for pid in members(mpirun) if pid != mpirun and (pid in started) == guards]


if __name__ == '__main__':
    scene.go_on_or_skip(sys.argv[0])
    del sys.argv[1]
    scene.main(sys.argv[0])
