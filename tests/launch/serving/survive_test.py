#!/usr/bin/env python3
"""Tests that launch/serve goes on when its engine is lost: every text is the one it would have been, over the machines that are left."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import scene
from serving import shares

HOSTS = '127.0.0.1', '127.0.0.2', '127.0.0.3'  # each answers a probe
MPIRUN = '''#!/bin/sh
for word; do
  [ "$last" = --hostfile ] && hosts=$(paste -sd, "$word")
  last=$word
  [ "$found" ] && set -- "$@" "$word"
  [ "$word" = engine ] && { found=1; set --; }
done
ENGINE_HOSTS=$hosts exec "$YAMATA_BUILD/yamata" engine "$@"
'''


class Servers(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(scene.build_folder(folder.name))
        self.starts = self.folder / 'starts'
        mpirun = self.folder / 'bin' / 'mpirun'
        mpirun.parent.mkdir()
        mpirun.write_text(MPIRUN)
        mpirun.chmod(0o755)
        (self.folder / 'hosts').write_text('\n'.join(['# three machines', *HOSTS]))

    def run_server(self, *words, hosts=True, **environment):
        words = (['--hostfile', str(self.folder / 'hosts')] if hosts else []) + list(words)
        server = scene.Running(self.folder, *words, ENGINE_STARTS=str(self.starts),
                               PATH=f'{self.folder}/bin:{os.environ["PATH"]}', **environment)
        self.addCleanup(lambda: server.process.poll() is None and server.end())
        return server

    def generations(self):
        return [line for line in self.recorded() if 'hosts' in line]

    def recorded(self):
        return [json.loads(line) for line in self.starts.read_text().splitlines()]


class Survive(Servers):
    def joined(self, answer):
        return ''.join(event['choices'][0]['delta'].get('content') or '' for event in answer.events() if event['choices'])

    def said_in(self, prompt):
        return re.search('«say»(.*)«end»', prompt)[1]

    def test_a_text_goes_on_over_the_machines_that_are_left(self):
        server = self.run_server()
        self.starts.unlink()
        prompt = '«say»Grüße, 你好 and good day to you«end»«lost 4 127.0.0.2»'
        stream = server.chat(prompt, stream=True)
        self.assertEqual(self.joined(stream), self.said_in(prompt))
        self.assertIn(b': recovering, machine 127.0.0.2 is lost', stream.data)
        health = server.ask('GET', '/health').json()
        self.assertEqual((health['status'], health['generation'], health['losses']), ('ok', 2, 1))
        self.assertEqual([machine['here'] for machine in health['machines']], [True, False, True])
        self.assertIn('is silent', health['last_loss']['why'])
        plain = server.chat('«say»Grüße, 你好 and good day to you«end»«lost 9 127.0.0.3»').json()
        self.assertEqual(plain['choices'][0]['message']['content'], self.said_in(prompt))
        self.assertEqual(plain['usage']['completion_tokens'], len(self.said_in(prompt).encode()))
        self.assertEqual([start['hosts'] for start in self.generations()], [[HOSTS[0], HOSTS[2]], [HOSTS[0]]])

    def test_each_cut_of_a_text_gives_the_same_text_and_counts(self):
        server = self.run_server(hosts=False)
        said = 'a “b” 你'
        for cut in range(1, len(said.encode())):
            for more in {}, {'stop': ['你']}, {'logprobs': True, 'top_logprobs': 1}:
                prompt = f'«say»{said}«end»'
                answers = [server.chat(text, **more).json() for text in (prompt, f'{prompt}«gone {cut}»')]
                texts, reasons, usages, entries = zip(*[
                    (it['choices'][0]['message'], it['choices'][0]['finish_reason'], it['usage']['completion_tokens'],
                     (it['choices'][0]['logprobs'] or {}).get('content')) for it in answers])
                for pair in texts, reasons, usages, entries:
                    self.assertEqual(pair[0], pair[1], (cut, more))

    def test_the_survivors_keep_the_proportions_of_their_shares(self):
        server = self.run_server('--layer-split', '1,2,3', '-c', '512')
        server.chat('«lost 2 127.0.0.2»')
        first, second = self.generations()
        self.assertEqual(first['flags'][first['flags'].index('--layer-split') + 1], '1,2,3')
        self.assertEqual(second['flags'].count('--layer-split'), 1)
        self.assertEqual(second['flags'][second['flags'].index('--layer-split') + 1], '2.0000,2.0000')
        self.assertIn('512', second['flags'])

    def test_only_the_request_that_ends_the_engine_each_time_fails(self):
        server = self.run_server(hosts=False, ENGINE_SLOTS='3')
        clients = []
        for _ in range(2):
            clients.append(server.socket())
            self.addCleanup(clients[-1].close)
            clients[-1].sendall(scene.request({'messages': [{'role': 'user', 'content': '«slow»'}], 'stream': True, 'max_tokens': 100,
                                               'temperature': 0}))
        while sum(slot['is_processing'] for slot in server.ask('GET', '/slots').json()) < 2:
            pass
        answer = server.chat('«die»')
        self.assertEqual((answer.status, answer.error()['code']), (503, 'engine_lost'))
        self.assertIn('twice with this request', answer.error()['message'])
        undisturbed = server.chat('«slow»', max_tokens=100).json()['choices'][0]['message']['content']
        for client in clients:
            received = b''
            while b'[DONE]' not in received:
                received += client.recv(65536)
            lines = [json.loads(line[6:]) for line in received.decode().split('\n') if line.startswith('data: {')]
            self.assertEqual(''.join(it['choices'][0]['delta'].get('content') or '' for it in lines), undisturbed)

    def test_a_machine_alone_that_does_not_hold_the_model_waits_for_the_others(self):
        server = self.run_server(ENGINE_NEEDS='2')
        text = server.chat('«say»There is more to say«end»«lost 3 127.0.0.2»').json()['choices'][0]['message']['content']
        self.assertEqual(text, 'There is more to say')
        with server.socket() as client:
            client.sendall(scene.request({'messages': [{'role': 'user', 'content': '«say»And more«end»«lost 2 127.0.0.3»'}]}))
            self.assertIn(b'And more', self.body_of(client))
        self.assertGreaterEqual(len(self.generations()), 4)
        self.assertEqual(len(self.generations()[2]['hosts']), 1)

    def body_of(self, client):
        received = b''
        while b'"usage"' not in received and (piece := client.recv(65536)):
            received += piece
        return received

    def test_what_is_asked_while_it_recovers_waits_and_is_answered(self):
        server = self.run_server(hosts=False)
        with server.socket() as client:
            client.sendall(scene.request({'messages': [{'role': 'user', 'content': '«say»There is more to say«end»«gone 2»'}]}))
            while server.ask('GET', '/health').json()['generation'] < 2:
                pass
            tokens = server.ask('POST', '/tokenize', {'content': 'x'})
            self.assertEqual((tokens.status, tokens.json()), (200, {'tokens': [120]}))
            self.assertEqual(server.chat('Hello').status, 200)
            self.assertIn(b'There is more to say', self.body_of(client))

    def test_metrics_count_losses_and_machines(self):
        server = self.run_server()
        server.chat('«lost 2 127.0.0.2»')
        said = server.ask('GET', '/metrics').data.decode()
        for line in ('yamata_losses_total 1', 'yamata_engine_generation 2', 'yamata_machines 3', 'yamata_machines_here 2'):
            self.assertIn(f'\n{line}\n', said)


class State(Servers):
    """Requests with an Idempotency-Key, across servers."""

    BODY = {'prompt': '«slow»tell me', 'max_tokens': 150, 'temperature': 1, 'stream': True, 'n': 2}

    def setUp(self):
        super().setUp()
        self.state = self.folder / 'state'

    def run_one(self, *words, **environment):
        return self.run_server('--state', str(self.state), *words, hosts=False, ENGINE_SLOTS='2', **environment)

    def ask(self, server, key='k', **more):
        return server.ask('POST', '/v1/completions', self.BODY | more, {'idempotency-key': key})

    def texts(self, answer):
        found = ['', '']
        for event in answer.events():
            for choice in event['choices']:
                found[choice['index']] += choice.get('text') or ''
        return found

    def kill_amid(self, server, pieces=20):
        with server.socket() as client:
            data = scene.request(self.BODY, '/v1/completions')
            client.sendall(data.replace(b'\r\n', b'\r\nIdempotency-Key: k\r\n', 1))
            received = b''
            while received.count(b'data: {') < pieces:
                received += client.recv(4096)
            server.process.kill()
            server.process.wait()

    def test_a_request_goes_on_after_the_server_was_killed(self):
        server = self.run_one()
        whole = self.texts(self.ask(server, 'another', seed=1741))
        server.end()
        server = self.run_one()
        self.kill_amid(server)
        file, = [path for path in self.state.iterdir() if b'"done"' not in path.read_bytes()]
        with open(file, 'ab') as torn:
            torn.write(b'[0,{"is":"te')
        self.starts.unlink()
        server = self.run_one()
        answer = self.ask(server)
        seed = answer.events()[-1]['seed']
        kept = [line['kept'] for line in self.recorded() if 'kept' in line]
        self.assertEqual(len(kept), 2)
        self.assertTrue(all(count >= 5 for count in kept), kept)
        self.assertEqual(self.texts(answer), self.texts(self.ask(server, 'third', seed=seed)))
        self.assertNotEqual(self.texts(answer), whole)
        self.assertEqual(self.texts(self.ask(server)), self.texts(answer), 'what has ended is answered again')
        self.assertEqual(len([line for line in self.recorded() if 'kept' in line]), 2)

    def test_a_key_is_for_one_request_at_a_time_and_for_the_same_one(self):
        server = self.run_one()
        self.ask(server, max_tokens=3)
        self.assertEqual(self.ask(server, max_tokens=4).status, 422)
        self.assertEqual(self.ask(server, 'x' * 300).status, 400)
        with server.socket() as client:
            client.sendall(scene.request(self.BODY, '/v1/completions').replace(b'\r\n', b'\r\nIdempotency-Key: z\r\n', 1))
            client.recv(4096)
            self.assertEqual(self.ask(server, 'z').error()['code'], 'idempotency_in_progress')

    def test_a_damaged_file_is_named(self):
        self.state.mkdir()
        for content in b'{"body": "x"}\n', b'{"body": "x", "asked": []}\n5\n', b'\xff\n':
            (self.state / 'x.request').write_bytes(content)
            process = scene.start(self.folder, '--state', str(self.state))
            error = process.communicate(timeout=scene.LATEST_S)[1]
            self.assertEqual(process.returncode, 2)
            self.assertRegex(error, r'^serve: .*x\.request is damaged in line [12]; remove it\n$')

    def test_old_files_make_room(self):
        from serving import journal
        its = journal.Journal(self.state, 'm')
        for i in range(journal.MOST_FILES + 9):
            path = self.state / f'{i}{journal.SUFFIX}'
            path.write_text('{"body": "", "asked": []}\n')
            os.utime(path, (i, i))
        its.make_room()
        self.assertEqual(len(its.files()), journal.MOST_FILES - 1)
        self.assertEqual(its.files()[0].name, f'10{journal.SUFFIX}')


class Run(Servers):
    """launch/batch."""

    def run_texts(self, *words, **environment):
        command = [sys.executable, scene.ROOT / 'launch' / 'batch', '-m', f'{self.folder}/model.gguf', '--json', f'{self.folder}/json']
        command += words
        return subprocess.run(command, capture_output=True, text=True, timeout=scene.LATEST_S, env=os.environ | environment | {
            'YAMATA_BUILD': str(self.folder), 'ENGINE_STARTS': str(self.starts), 'PATH': f'{self.folder}/bin:{os.environ["PATH"]}'})

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

    def test_what_cannot_run_says_why(self):
        for words, code, said in ((['-p', 'x', '--broken'], 2, 'yamata: the file is damaged'), ([], 1, 'name a prompt'),
                                  (['-p', '«die»'], 2, 'twice with this request'), (['-f', '/none'], 2, '/none does not exist'),
                                  (['-p', 'x' * 5000], 2, 'context')):
            done = self.run_texts(*words)
            self.assertEqual((done.returncode, said in done.stderr), (code, True), done.stderr)


class Shares(unittest.TestCase):
    RANKS = [{'rank': 0, 'role': 'head', 'layers': '0-3', 'share': 1}, {'rank': 1, 'role': 'stage', 'layers': '4-9', 'share': .5},
             {'rank': 2, 'role': 'drafter', 'layers': '', 'share': 1}, {'rank': 3, 'role': 'stage', 'layers': '4-9', 'share': .5}]

    def test_groups_and_drafters_stay(self):
        self.assertEqual(shares.remaining(self.RANKS, [0, 1, 2, 3]), ([0, 1, 3, 2], '4.0000,3.0000+3.0000/1'))
        self.assertEqual(shares.remaining(self.RANKS, [0, 2, 3]), ([0, 3, 2], '4.0000,3.0000/1'))
        self.assertEqual(shares.remaining(self.RANKS, [1, 3]), ([1, 3], '3.0000+3.0000'))

    def test_a_rank_that_did_nothing_needs_a_new_split(self):
        idle = [*self.RANKS, {'rank': 4, 'role': 'idle', 'layers': ''}]
        self.assertEqual(shares.remaining(idle, [0, 2, 4]), ([0, 2, 4], None))
        self.assertEqual(shares.remaining(self.RANKS, [2]), ([2], None))

    def test_a_single_layer_counts(self):
        self.assertEqual(shares.layers_of({'layers': '7'}), 1)


if __name__ == '__main__':
    scene.main(sys.argv[0])
