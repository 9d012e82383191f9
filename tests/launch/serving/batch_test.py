#!/usr/bin/env python3
"""Tests that launch/batch writes every text in spite of losses, and that experiments can use it."""
import csv
import json
import os
import subprocess
import sys

import scene
from survive_case import HOSTS, Servers


EXPERIMENT = '''
repeats = 1
tokens = 20
[models.none]
target = "FOLDER/model.gguf"
[clusters.safe]
hostfile = "FOLDER/hosts"
survive = true
[strategies]
iterative = ["--strategy", "iterative"]
[prompts.long]
text = "«lost 4 127.0.0.2»"
kind = "none"
'''


class Batch(Servers):
    """launch/batch."""

    def run_texts(self, *words, **environment):
        command = [sys.executable, scene.ROOT / 'launch' / 'batch', '-m', f'{self.folder}/model.gguf', '--json', f'{self.folder}/json']
        command += words
        return subprocess.run(command, capture_output=True, text=True, timeout=scene.LATEST_S, env=self.environment() | environment)

    def environment(self):
        return os.environ | {'YAMATA_BUILD': str(self.folder), 'ENGINE_STARTS': str(self.starts),
                             'PATH': f'{self.folder}/bin:{os.environ["PATH"]}'}

    def test_a_text_is_whole_in_spite_of_losses(self):
        prompt = '«say»Grüße, 你好 to all«end»«lost 4 127.0.0.2»«lost 12 127.0.0.3»'
        done = self.run_texts('--hostfile', str(self.folder / 'hosts'), '-p', prompt)
        self.assertEqual((done.returncode, done.stdout), (0, 'Grüße, 你好 to all\n'), done.stderr)
        its = json.loads((self.folder / 'json').read_text())
        self.assertEqual((its['losses'], its['generations'], its['ranks']), (2, 3, 1))
        self.assertEqual(bytes(its['token_ids']).decode(), 'Grüße, 你好 to all')
        self.assertEqual(its['generated_tokens'], len(its['token_ids']))

    def test_many_prompts_come_in_their_order(self):
        prompts = self.folder / 'prompts.jsonl'
        texts = ['«slow»«gone 9»', 'short', '«say»one«end»']
        prompts.write_text('\n'.join(json.dumps({'prompt': text, 'id': text}) + '\n' for text in texts))
        done = self.run_texts('-f', str(prompts), '-n', '30', ENGINE_SLOTS='3')
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual((done.returncode, [len(line['token_ids']) for line in lines], lines[2]['text']), (0, [30, 30, 3], 'one'))
        self.assertEqual([line['id'] for line in lines], texts)
        self.assertEqual(json.loads((self.folder / 'json').read_text())['texts'], lines)
        for line in '{"prompt": 7}', '{"text": "x"}', '[1]', 'x':
            prompts.write_text('{"prompt": "a"}\n' + line)
            done = self.run_texts('-f', str(prompts))
            self.assertEqual((done.returncode, done.stdout, 'line 2: no JSON object' in done.stderr), (2, '', True), done.stderr)

    def test_machines_that_were_not_set_up_are_not_tried(self):
        hosts = self.folder / 'hosts'
        hosts.write_text('127.0.0.1 slots=1\n127.0.0.2 slots=1  # ssh bob@127.0.0.2\n')
        done = self.run_texts('--hostfile', str(hosts), '-p', 'x')
        self.assertEqual((done.returncode, done.stderr.splitlines()),
                         (1, [f'batch: the machines of {hosts} are not set up; run: launch/cluster setup {hosts}']))
        (self.folder / 'hosts.ssh').write_text('# host file: 127.0.0.1\n# host file: 127.0.0.2 ssh eve@127.0.0.2\n')
        done = self.run_texts('--hostfile', str(hosts), '-p', 'x')
        self.assertEqual((done.returncode, 'says something else of 127.0.0.2 than hosts.ssh' in done.stderr), (1, True), done.stderr)

    def test_a_job_that_cannot_start_names_what_says_why(self):
        mpirun, hosts = self.folder / 'bin' / 'mpirun', self.folder / 'hosts'
        mpirun.write_text('#!/bin/sh\necho "bob@b: Permission denied (publickey)." >&2\nexit 1\n')
        done = self.run_texts('--hostfile', str(hosts), '-p', 'x')
        self.assertEqual((done.returncode, f'launch/cluster check {hosts} says' in done.stderr), (3, True), done.stderr)

    def test_a_full_context_is_said(self):
        done = self.run_texts('-p', 'a prompt', ENGINE_CONTEXT='40')
        self.assertEqual((done.returncode, json.loads((self.folder / 'json').read_text())['generated_tokens']), (0, 40 - 8), done.stderr)
        self.assertIn('the context of 40 tokens is full', done.stderr)
        self.assertNotIn('is full', self.run_texts('-p', 'a prompt', '-n', '5', ENGINE_CONTEXT='40').stderr)

    def test_an_experiment_survives_where_it_is_asked_to(self):
        experiment, results = self.folder / 'e.toml', self.folder / 'results'
        (self.folder / 'build').symlink_to(self.folder)
        experiment.write_text(EXPERIMENT.replace('FOLDER', str(self.folder)))
        done = subprocess.run([sys.executable, scene.ROOT / 'launch' / 'experiment', str(experiment), '--out', str(results)], text=True,
                              capture_output=True, timeout=scene.LATEST_S, cwd=self.folder, env=self.environment())
        self.assertEqual(done.returncode, 0, done.stderr)
        row, = csv.DictReader((results / 'results.csv').open())
        self.assertEqual([row[name] for name in ('error', 'generations', 'losses', 'ranks', 'generated_tokens', 'cluster')],
                         ['', '2', '1', '2', '20', 'safe'])
        flags = self.generations()[0]['flags']
        self.assertEqual(flags[flags.index('--strategy') + 1], 'iterative')
        self.assertFalse({'-f', '-n', 'run'} & set(flags), flags)

    def test_what_cannot_run_says_why(self):
        for words, code, said in ((['-p', 'x', '--broken'], 2, 'yamata: the file is damaged'), ([], 1, 'name a prompt'),
                                  (['-p', '«die»'], 2, 'twice with this request'), (['-f', '/none'], 2, '/none does not exist'),
                                  (['-p', 'x' * 5000], 2, 'context')):
            done = self.run_texts(*words)
            self.assertEqual((done.returncode, said in done.stderr), (code, True), done.stderr)


if __name__ == '__main__':
    scene.main(sys.argv[0])
