#!/usr/bin/env python3
"""Tests that launch/serve goes on when its engine is lost: every text is the one it would have been, over the machines that are left."""
import json
import os
import pathlib
import re
import subprocess
import sys

import scene
from serving import job
from survive_case import HOSTS, Servers


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

    def test_a_request_is_not_to_blame_if_mpirun_is_killed(self):
        answer = self.run_server().chat('«say»There is more to say«end»«shot 3»')
        self.assertEqual(answer.json()['choices'][0]['message']['content'], 'There is more to say')
        self.assertEqual(len(self.generations()), 4)

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

    def test_a_machine_that_is_lost_during_the_start_is_left_out(self):
        server = self.run_server('--layer-split', '1,2,3', ENGINE_FAILS='127.0.0.2')
        self.assertIn('machine 127.0.0.2 is lost (rank 1 (127.0.0.2): is silent); going on with 127.0.0.1, 127.0.0.3\n', server.said)
        self.assertEqual([start['hosts'] for start in self.generations()], [[*HOSTS], [HOSTS[0], HOSTS[2]]])
        self.assertNotIn('--layer-split', self.generations()[1]['flags'])
        self.assertEqual(server.chat('«say»as ever«end»').json()['choices'][0]['message']['content'], 'as ever')

    def test_a_start_without_the_lost_machine_may_fail(self):
        with self.assertRaisesRegex(AssertionError, '(?s)127.0.0.2 is lost.*too little memory'):
            self.run_server(ENGINE_FAILS='127.0.0.2', ENGINE_NEEDS='3')

    def test_what_a_lost_engine_says_later_counts_nothing(self):
        server = self.run_server(hosts=False)
        answer = server.chat('«say»Nothing of that is stale«end»«late 7»').json()
        self.assertEqual(answer['choices'][0]['message']['content'], 'Nothing of that is stale')
        self.assertEqual(answer['usage']['completion_tokens'], len('Nothing of that is stale'))

    def test_starts_that_fail_again_and_again_end_no_text(self):
        broken = self.folder / 'broken'
        server = self.run_server(ENGINE_BROKEN=str(broken))
        broken.touch()
        with server.socket() as client:
            client.sendall(scene.request({'messages': [{'role': 'user', 'content': '«say»in the end«end»«gone 4»'}]}))
            while len(self.generations()) < 2 + job.PATIENT_LOSSES:
                pass
            self.assertEqual(server.ask('GET', '/health').json()['status'], 'recovering')
            broken.unlink()
            self.assertIn(b'in the end', self.body_of(client))
        self.assertLess(len(self.generations()), 4 + job.PATIENT_LOSSES)

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

    def test_a_file_is_no_folder(self):
        self.state.write_text('')
        process = scene.start(self.folder, '--state', str(self.state))
        self.assertEqual(process.communicate(timeout=scene.LATEST_S)[1], f'serve: --state {self.state} is a file; name a folder\n')

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


if __name__ == '__main__':
    scene.main(sys.argv[0])
