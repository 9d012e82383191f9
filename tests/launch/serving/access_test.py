#!/usr/bin/env python3
"""Tests who may ask launch/serve, and what it refuses in a line before it loads a model."""
import os
import pathlib
import socket
import stat
import sys
import tempfile
import unittest

import scene

ASK = {'messages': [{'role': 'user', 'content': 'Hello'}], 'max_tokens': 1}


class WithoutKey(scene.Scene):
    WORDS = '--allow-host', 'Example.org', '--cors-origin', 'https://app.example'

    def test_only_known_names_and_addresses_are_this_server(self):
        port = self.server.port
        for name, status in (('evil.example', 403), ('localhost', 200), (f'localhost:{port}', 200), ('127.0.0.1', 200),
                             (f'[::1]:{port}', 200), ('example.org', 200), ('EXAMPLE.ORG.:80', 200), ('', 403),
                             ('localhost.evil.example', 403), ('127.0.0.1.evil.example', 403)):
            with self.subTest(name):
                self.assertEqual(self.server.ask('GET', '/v1/models', headers={'host': name}).status, status)

    def test_only_pages_of_allowed_origins_may_ask(self):
        asked = {'access-control-request-method': 'POST', 'access-control-request-headers': 'content-type'}
        own = self.server.ask('OPTIONS', '/v1/chat/completions', headers=asked | {'origin': 'https://app.example'})
        self.assertEqual((own.status, own.headers['access-control-allow-origin']), (204, 'https://app.example'))
        self.assertEqual(own.headers['access-control-allow-headers'], 'content-type')
        foreign = self.server.ask('OPTIONS', '/v1/chat/completions', headers=asked | {'origin': 'https://evil.example'})
        self.assertEqual(foreign.status, 403)
        for answer in foreign, self.server.ask('GET', '/v1/models', headers={'origin': 'https://evil.example'}):
            self.assertNotIn('access-control-allow-origin', answer.headers)
        answer = self.server.ask('POST', '/v1/chat/completions', ASK, {'origin': 'https://app.example'})
        self.assertEqual((answer.status, answer.headers.get('access-control-allow-origin')), (200, 'https://app.example'))


class WithKeys(scene.Scene):
    @classmethod
    def words(cls):
        keys, log = pathlib.Path(cls.folder, 'keys'), pathlib.Path(cls.folder, 'log')
        keys.write_text('first-key\n\nsecond-key\n')
        keys.chmod(0o600)
        return '--api-key-file', keys, '--log', log

    def test_a_key_is_needed_but_for_health_and_page(self):
        for path, status in (('/health', 200), ('/', 200), ('/v1/models', 401), ('/metrics', 401), ('/slots', 401), ('/nothing', 401)):
            self.assertEqual(self.server.ask('GET', path).status, status, path)
        for header in ('Bearer no', 'Bearer ', 'first-key', 'Basic first-key', 'Bearer first-key2', 'Bearer first-ke\xff'):
            answer = self.server.ask('POST', '/v1/chat/completions', ASK, {'authorization': header})
            self.assertEqual((answer.status, answer.error()['code']), (401, 'invalid_api_key'), header)
        for header in ('Bearer first-key', 'bearer second-key'):
            self.assertEqual(self.server.ask('POST', '/v1/chat/completions', ASK, {'authorization': header}).status, 200)

    def test_the_printed_command_sends_the_key(self):
        self.assertIn('choices', os.popen(self.server.curl + ' -s').read())

    def test_the_log_has_a_line_per_request_and_no_text(self):
        secret = {'messages': [{'role': 'user', 'content': 'a secret'}], 'max_tokens': 3}
        self.server.ask('POST', '/v1/chat/completions', secret, {'authorization': 'Bearer first-key'})
        self.server.ask('GET', '/health')  # the line before is written by now
        text = pathlib.Path(self.folder, 'log').read_text()
        self.assertIn('"completion_tokens": 3', text)
        self.assertNotIn('secret', text)
        self.assertNotIn('first-key', text)


class Refused(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(scene.build_folder(folder.name))

    def assert_refused(self, says, *words, code=1, **environment):
        process = scene.start(self.folder, *words, **environment)
        error = process.communicate(timeout=scene.LATEST_S)[1]
        self.assertEqual((process.returncode, len(error.splitlines())), (code, 1), error)
        self.assertRegex(error, f'^serve: .*{says}')

    def test_a_port_in_use(self):
        with socket.create_server(('127.0.0.1', 0)) as other:
            port = other.getsockname()[1]
            self.assert_refused(f'port {port} of 127.0.0.1 cannot be used .*; choose another with --port', '--port', str(port))

    def test_a_file_of_keys_that_others_can_read(self):
        keys = self.folder / 'keys'
        keys.write_text('key\n')
        for mode in (stat.S_IRGRP, stat.S_IROTH):
            keys.chmod(0o600 | mode)
            self.assert_refused('others can read the keys; run: chmod 600', '--api-key-file', keys)
        keys.chmod(0o600)
        keys.write_text('\n')
        self.assert_refused('has no key', '--api-key-file', keys)

    def test_files_that_are_missing(self):
        for flag in ('--api-key-file', '--chat-template-file', '--hostfile', '-m'):
            self.assert_refused('nowhere does not exist', flag, '/nowhere', code=2)

    def test_other_machines_need_a_key(self):
        self.assert_refused('--host 0.0.0.0 lets other machines in; give --api-key-file', '--host', '0.0.0.0')

    def test_no_address_of_this_machine(self):
        keys = self.folder / 'keys'
        keys.write_text('key\n')
        keys.chmod(0o600)
        self.assert_refused('cannot be used', '--host', '203.0.113.7', '--api-key-file', keys)
        self.assert_refused('is no address', '--host', 'a b', '--api-key-file', keys)

    def test_started_by_mpirun_or_srun(self):
        self.assert_refused('mpirun has started this', OMPI_COMM_WORLD_SIZE='2')
        self.assert_refused('srun has started this', SLURM_STEP_ID='0')

    def test_no_program(self):
        (self.folder / 'yamata').unlink()
        self.assert_refused('yamata is not a program; build it')

    def test_packages_that_are_missing(self):
        code = ("import sys; sys.path[:0] = [sys.argv[1]]; from serving import packages; packages.SYSTEM_PYTHON = '/nowhere'\n"
                "packages.provide('x', ('jinja2', 'no_such_module'))")
        done = scene.subprocess.run([sys.executable, '-c', code, scene.MODULES], capture_output=True, text=True)
        self.assertIn('no_such_module missing; install with launch/install-packages --serve', done.stderr)


if __name__ == '__main__':
    scene.main(sys.argv[0])
