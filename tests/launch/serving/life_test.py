#!/usr/bin/env python3
"""Tests launch/serve over its life: loading, many requests at once, clients that leave or read slowly, Ctrl-C, and an engine that dies."""
import asyncio
import concurrent.futures
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import scene
from serving import engine

WAIT = {'messages': [{'role': 'user', 'content': '«wait»'}], 'stream': True}


class Together(scene.Scene):
    WORDS, ENVIRONMENT = ('--queue', '3'), {'ENGINE_SLOTS': '2'}

    def is_busy(self):
        return not self.slots_idle()

    def metric(self, name):
        return int(self.server.ask('GET', '/metrics').data.decode().split(f'\nyamata_{name} ')[1].split()[0])

    def waiting(self):
        return self.metric('requests_waiting')

    def test_texts_are_the_same_alone_and_at_once(self):
        texts = [f'text {i}' for i in range(4)]
        alone = [self.server.chat(text, max_tokens=40).json()['choices'] for text in texts]
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            together = pool.map(lambda text: self.server.chat(text, max_tokens=40), texts)
            self.assertEqual([answer.json()['choices'] for answer in together], alone)

    def test_work_ends_when_the_client_leaves(self):
        for stream in (True, False):
            with self.server.socket() as client:
                client.sendall(scene.request(WAIT | {'stream': stream}))
                self.wait_until(self.is_busy)
            self.wait_until(self.slots_idle)

    def test_beyond_the_queue_requests_are_refused_for_now(self):
        clients = []
        for i in range(5):
            clients.append(self.server.socket())
            clients[-1].sendall(scene.request(WAIT))
            if i >= 2:
                self.wait_until(lambda: self.waiting() == i - 1)
        answer = self.server.chat()
        self.assertEqual((answer.status, answer.error()['code']), (429, 'queue_full'))
        self.assertGreaterEqual(int(answer.headers['retry-after']), 1)
        self.assertEqual(self.server.ask('GET', '/health').status, 200)
        for client in clients:
            client.close()
        self.wait_until(self.slots_idle)
        self.assertEqual(self.server.chat().status, 200)

    def test_metrics_say_what_is_generated_and_what_waits(self):
        self.assertEqual((self.metric('slots'), self.metric('cache_cells')), (2, 2 * 4096))
        names, texts, pauses = ('requests_running', 'requests_waiting', 'slots_busy'), [], self.metric('pauses_total')
        for is_now in (1, 0, 1), (2, 0, 2), (2, 1, 2):
            texts.append(self.server.socket())
            texts[-1].sendall(scene.request(WAIT))
            self.wait_until(lambda: tuple(map(self.metric, names)) == is_now)
        self.assertEqual(self.metric('cache_cells_used'), 2 * len('<user>«wait»</user><assistant>'.encode()))
        for text in texts:
            text.close()
        self.wait_until(lambda: tuple(map(self.metric, (*names, 'cache_cells_used'))) == (0, 0, 0, 0))
        self.server.chat('«paused»')
        self.wait_until(lambda: self.metric('pauses_total') == pauses + 1)

    def test_tokens_are_counted_while_a_text_grows_and_each_once(self):
        before = self.metric('completion_tokens_total')
        with self.server.socket() as client:
            client.sendall(scene.request({'messages': [{'role': 'user', 'content': '«slow»'}], 'stream': True}))
            self.wait_until(lambda: self.metric('completion_tokens_total') > before)
            self.assertTrue(self.is_busy())
        self.wait_until(self.slots_idle)
        before = self.metric('completion_tokens_total')
        tokens = [self.server.chat('Hi', **more).json()['usage']['completion_tokens'] for more in ({'max_tokens': 30}, {'stop': [' ']})]
        self.assertEqual(self.metric('completion_tokens_total'), before + sum(tokens))

    def test_what_the_engine_cancels_by_itself_is_no_answer(self):
        answer = self.server.chat('«drop»')
        self.assertEqual((answer.status, answer.error()['code']), (503, 'engine_lost'))

    def test_silence_in_a_stream_has_comments(self):
        with self.server.socket() as client:
            client.sendall(scene.request(WAIT))
            received = b''
            while b': ping\n\n' not in received:
                received += client.recv(4096)
        self.assertIn(b'"role":"assistant"', received)

    def test_a_request_in_pieces_and_two_in_one_piece_are_answered(self):
        with self.server.socket() as client:
            for byte in scene.request({'content': 'x'}, '/tokenize'):
                client.sendall(bytes([byte]))
            self.receive(client, b'{"tokens":[120]}', 1)
            client.sendall(scene.request({'content': 'y'}, '/tokenize') * 2)
            self.receive(client, b'{"tokens":[121]}', 2)

    def receive(self, client, expected, times):
        received = b''
        while received.count(expected) < times:
            piece = client.recv(4096)
            self.assertTrue(piece, received)
            received += piece


class Once(unittest.TestCase):
    """A server for each test."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = scene.build_folder(folder.name)

    def run_server(self, *words, **environment):
        server = scene.Running(self.folder, *words, **environment)
        self.addCleanup(lambda: server.process.poll() is None and server.process.kill())
        return server

    def busy_client(self, server, text='«wait»', **more):
        client = server.socket()
        self.addCleanup(client.close)
        client.sendall(scene.request(WAIT | {'messages': [{'role': 'user', 'content': text}]} | more))
        while not any(slot['is_processing'] for slot in server.ask('GET', '/slots').json()):
            pass
        return client

    def rest_of(self, client):
        received = b''
        while piece := client.recv(65536):
            received += piece
        return received.decode()

    def test_the_first_signal_lets_requests_finish(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            server = self.run_server()
            client = self.busy_client(server, '«slow»', max_tokens=60, temperature=0)
            server.process.send_signal(number)
            text = self.rest_of(client)
            self.assertIn('data: [DONE]', text)
            self.assertIn('"finish_reason":"length"', text)
            self.assertEqual(server.process.wait(scene.LATEST_S), 0)
            self.assertIn('open requests finish', server.process.stderr.read())

    def test_a_second_signal_cancels_them(self):
        server = self.run_server()
        client = self.busy_client(server)
        server.process.send_signal(signal.SIGINT)
        self.assertIn('open requests finish', server.process.stderr.readline())
        code, _ = server.end()
        self.assertEqual(code, 0)
        self.assertEqual(self.error_of(client)['code'], 'server_ending')

    def test_a_signal_while_it_recovers_lets_requests_finish(self):
        server = self.run_server()
        client = self.busy_client(server, '«slow»«gone 30»', max_tokens=60, temperature=0)
        while 'is lost' not in (line := server.process.stderr.readline()):
            self.assertTrue(line)
        server.process.send_signal(signal.SIGINT)
        self.assertIn('"finish_reason":"length"', self.rest_of(client))
        self.assertEqual(server.process.wait(scene.LATEST_S), 0)

    def test_requests_that_come_while_it_ends_are_refused(self):
        server = self.run_server()
        self.busy_client(server)
        server.process.send_signal(signal.SIGINT)
        server.process.stderr.readline()
        self.assertEqual(server.chat().status, 503)
        self.assertEqual(server.ask('GET', '/health').status, 503)
        self.assertEqual(server.end()[0], 0)

    def test_an_engine_that_dies_while_the_server_ends_ends_no_text(self):
        server = self.run_server(ENGINE_SLOTS='2')
        client = self.busy_client(server, '«slow»«gone 30»', max_tokens=60, temperature=0)
        server.process.send_signal(signal.SIGINT)
        self.assertIn('"finish_reason":"length"', self.rest_of(client))
        self.assertEqual(server.process.wait(scene.LATEST_S), 0)
        self.assertIn('the engine is lost', server.process.stderr.read())

    def error_of(self, client):
        """The one that ends a stream, or stands for it if the stream had not begun."""
        text = self.rest_of(client)
        return json.loads(re.search(r'\{"error":.*\}', text)[0])['error']

    def test_the_machine_of_a_loss_is_named_as_soon_as_it_is_known(self):
        for asked, named in (('«killed»', 'rank 2 (attic) was killed by signal 9'),
                             ('«named»', 'rank 1 (attic) was killed by signal 9 (Killed); was its machine out of memory?')):
            server = self.run_server()
            said = server.chat(asked).error()['message']
            self.assertRegex(said, rf'^the engine was lost: {re.escape(named)}.*; twice with this request; send another one$')
            server.process.send_signal(signal.SIGINT)
            self.assertIn(named, server.process.communicate(timeout=scene.LATEST_S)[1])
            self.assertEqual(server.process.returncode, 0)

    def test_a_client_that_reads_slowly_is_cut(self):
        server = self.run_server(ENGINE_CONTEXT='8000000')
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.connect(('127.0.0.1', server.port))
            long = {'messages': [{'role': 'user', 'content': 'Hello'}], 'temperature': 0, 'max_tokens': 400000, 'logprobs': True,
                    'top_logprobs': 20}
            client.sendall(scene.request(WAIT | long))
            while not server.ask('GET', '/metrics').data.count(b'reason="cancelled"'):
                pass
            self.assertNotIn('[DONE]', self.rest_of(client))

    def test_while_it_loads_health_says_how_far_it_is(self):
        process = scene.start(self.folder, ENGINE_LOADS='wait')
        self.addCleanup(process.kill)
        server = scene.Running.__new__(scene.Running)
        server.process, server.port = process, self.port_of(process)
        while (answer := server.ask('GET', '/health')).json()['percent'] != 50:
            pass
        self.assertEqual((answer.status, answer.json()['status']), (503, 'loading'))
        answer = server.chat()
        self.assertEqual((answer.status, 'loading' in answer.error()['message']), (503, True))
        self.assertEqual(server.end()[0], 130)

    def port_of(self, process):
        """Of a server that has said nothing yet: that of its listening socket."""
        while True:
            sockets = {link.split('[')[1][:-1] for fd in pathlib.Path(f'/proc/{process.pid}/fd').iterdir()
                       if (link := self.link_of(fd)).startswith('socket:[')}
            for line in pathlib.Path('/proc/net/tcp').read_text().splitlines()[1:]:
                words = line.split()
                if words[3] == '0A' and words[9] in sockets:
                    return int(words[1].split(':')[1], 16)

    def link_of(self, path):
        try:
            return str(path.readlink())
        except OSError:
            return ''

    def test_under_slurm_a_batch_script_serves_with_a_rank_per_node(self):
        mpirun = pathlib.Path(self.folder, 'bin', 'mpirun')
        mpirun.parent.mkdir()
        mpirun.write_text(f'#!/bin/sh\necho "$@" >"{self.folder}/words"\necho $SLURM_OVERLAP >"{self.folder}/overlap"\n'
                          f'exec "{self.folder}/yamata" engine\n')
        mpirun.chmod(0o755)
        scontrol = mpirun.with_name('scontrol')
        scontrol.write_text('#!/bin/sh\n[ "$*" = "show hostnames n[1-4]" ] && printf "n1\\nn2\\nn3\\nn4\\n"\n')
        scontrol.chmod(0o755)
        batch = subprocess.Popen([scene.ROOT / 'launch' / 'slurm', 'serve', '-m', f'{self.folder}/model.gguf', '--port', '0'], text=True,
                                 stderr=subprocess.PIPE, cwd=scene.ROOT, env=os.environ | {
                                     'YAMATA_BUILD': self.folder, 'PATH': f'{mpirun.parent}:{os.environ["PATH"]}', 'SLURM_JOB_ID': '1',
                                     'SLURM_JOB_NODELIST': 'n[1-4]', 'SLURM_SUBMIT_DIR': str(scene.ROOT)})
        while 'curl' not in (line := batch.stderr.readline()):
            self.assertTrue(line)
        batch.send_signal(signal.SIGTERM)
        self.assertEqual(batch.wait(scene.LATEST_S), 0)
        batch.stderr.close()
        words = pathlib.Path(self.folder, 'words').read_text()
        self.assertRegex(words, '--hostfile [^ ]+/hosts --map-by node -np 4')
        self.assertEqual(pathlib.Path(self.folder, 'overlap').read_text(), '1\n')

    def test_an_engine_that_cannot_load_ends_it_with_its_code(self):
        process = scene.start(self.folder, '--broken')
        error = process.communicate(timeout=scene.LATEST_S)[1]
        self.assertEqual((process.returncode, error), (2, 'yamata: the file is damaged; copy it again\n'))

    def test_a_flag_that_nobody_knows_names_the_help_of_both(self):
        process = scene.start(self.folder, '--porrt', '5')
        error = process.communicate(timeout=scene.LATEST_S)[1]
        self.assertEqual((process.returncode, 'yamata engine --help' in error, 'launch/serve --help' in error), (1, True, True), error)

    def test_a_broken_template_is_named(self):
        template = pathlib.Path(self.folder, 'template')
        template.write_text('{% if %}')
        process = scene.start(self.folder, '--chat-template-file', template)
        error = process.communicate(timeout=scene.LATEST_S)[1]
        self.assertEqual((process.returncode, len(error.splitlines())), (3, 1), error)
        self.assertIn('the chat template cannot be used: TemplateSyntaxError', error)

    def test_without_a_template_chatml_is_used_with_a_warning(self):
        server = self.run_server(ENGINE_TEMPLATE='')
        self.assertIn('warning: the model has no chat template; ChatML is used', server.said[0])
        prompt = server.ask('POST', '/apply-template', {'messages': [{'role': 'user', 'content': 'Hi'}]}).json()['prompt']
        self.assertEqual(prompt, '<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n')
        self.assertEqual(server.end()[0], 0)


class Errors(unittest.TestCase):
    def test_an_error_of_no_request_ends_all_that_are_open(self):
        """Else they would wait for ever for a line that the engine could not read."""
        said, heard = [], []
        its = engine.Engine(['engine'], lambda _: None, said.append)
        its.listeners[1] = heard.append
        its.take({'is': 'error', 'message': 'no JSON'})
        self.assertEqual((said, heard), (['no JSON'], [{'is': 'error', 'message': 'no JSON'}]))

    def test_boxes_of_mpirun_are_shown_only_if_nothing_else_says_why(self):
        box = ['-----------', 'Primary job terminated normally', '', '-----------']
        for lines, shown in ((['yamata: rank 1: too little memory', *box, *box, 'more'], ['yamata: rank 1: too little memory', 'more']),
                             (['ssh: connect to host b: timed out', *box], ['ssh: connect to host b: timed out']),
                             (['b@c: Permission denied (publickey).', *box], ['b@c: Permission denied (publickey).']), (box, box)):
            noise = engine.Noise()
            self.assertEqual([line for line in lines if not noise.has(line)], shown)

    def test_an_engine_that_starts_and_says_nothing_is_ended(self):
        said = []
        with mock.patch.multiple(engine, TICK_S=0.01, START_SILENCE_S=0.1):
            silent = engine.Engine(['sleep', 'infinity'], lambda _: None, said.append)
            asyncio.run(silent.run())
        self.assertEqual((silent.state, silent.code), ('lost', -signal.SIGTERM))
        self.assertEqual(silent.why, 'the engine has said nothing for 0.1 s')


if __name__ == '__main__':
    scene.main(sys.argv[0])
