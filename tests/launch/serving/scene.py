"""Support for tests of launch/serve: starts it with the engine's double, and asks it."""
import contextlib
import http.client
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
MODULES = ROOT / 'launch' / 'python'
DOUBLE = pathlib.Path(__file__).with_name('engine_double.py')
LATEST_S = 60
sys.path.insert(0, str(MODULES))
sys.path.insert(0, str(ROOT / 'launch'))
os.environ.setdefault('PYTHONDONTWRITEBYTECODE', '1')

from serving import packages  # noqa: E402

THOROUGH = bool(os.environ.get('YAMATA_THOROUGH'))


def go_on_or_skip(script):
    """Continues the test in a Python with the packages of launch/serve; without one it is skipped."""
    if lacking := packages.go_on_elsewhere(script):
        print(f'skipped: {", ".join(lacking)} missing; launch/install-packages --serve')
        sys.exit(77)


def build_folder(folder):
    """A folder whose `yamata` is the double."""
    program = pathlib.Path(folder, 'yamata')
    program.write_text(f'#!/bin/sh\nexec {sys.executable} {DOUBLE} "$@"\n')
    program.chmod(0o755)
    pathlib.Path(folder, 'model.gguf').write_bytes(b'GGUF')
    return folder


def request(body, path='/v1/chat/completions'):
    """The bytes of a POST."""
    data = json.dumps(body).encode()
    head = f'POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n'
    return head.encode() + data


def start(folder, *words, stderr=subprocess.PIPE, model=None, **environment):
    command = [sys.executable, ROOT / 'launch' / 'serve', '-m', model or f'{folder}/model.gguf', '--port', '0', *words]
    return subprocess.Popen(command, text=True,
                            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=stderr,
                            env=os.environ | {'YAMATA_BUILD': str(folder)} | environment)


class Answer:
    def __init__(self, response):
        self.status, self.headers, self.data = response.status, {k.lower(): v for k, v in response.getheaders()}, response.read()

    def json(self):
        return json.loads(self.data)

    def error(self):
        return self.json()['error']

    def events(self):
        """The JSON of a stream; its last line is [DONE]."""
        lines = [line[6:] for line in self.data.decode().split('\n') if line.startswith('data: ')]
        assert lines[-1] == '[DONE]', lines[-1]
        return [json.loads(line) for line in lines[:-1]]


class Running:
    """A server that runs."""

    def __init__(self, folder, *words, **more):
        self.process = start(folder, *words, **more)
        self.said = []
        for line in self.process.stderr:
            self.said.append(line)
            if 'curl http' in line:
                break
        else:
            raise AssertionError(''.join(self.said))
        self.port = int(line.split('/v1')[0].rpartition(':')[2])
        self.curl = line.strip()

    def ask(self, method, path, body=None, headers=None, timeout=LATEST_S):
        connection = http.client.HTTPConnection('127.0.0.1', self.port, timeout=timeout)
        with contextlib.closing(connection):
            given = {'content-type': 'application/json'} | (headers or {})
            data = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
            connection.request(method, path, data, {name: value for name, value in given.items() if value is not None})
            return Answer(connection.getresponse())

    def chat(self, text='Hello', **more):
        messages = more.pop('messages', [{'role': 'user', 'content': text}])
        return self.ask('POST', '/v1/chat/completions', {'messages': messages, 'max_tokens': 200, 'temperature': 0, **more})

    def socket(self):
        return socket.create_connection(('127.0.0.1', self.port), LATEST_S)

    def end(self, number=signal.SIGINT):
        """Its exit code and the rest of what it said."""
        self.process.send_signal(number)
        rest = self.process.communicate(timeout=LATEST_S)[1]
        return self.process.returncode, rest


class Scene(unittest.TestCase):
    """One server for all tests of a class."""

    WORDS, ENVIRONMENT = (), {}

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = build_folder(folder.name)
        cls.server = Running(folder.name, *cls.words(), **cls.ENVIRONMENT)
        cls.addClassCleanup(cls.finish)

    @classmethod
    def words(cls):
        return cls.WORDS

    @classmethod
    def finish(cls):
        if cls.server.process.poll() is None:
            cls.server.end()

    def slots_idle(self):
        return not any(slot['is_processing'] for slot in self.server.ask('GET', '/slots').json())

    def wait_until(self, condition):
        """Asks until it is so; the time limit of the test ends it otherwise."""
        while not condition():
            pass


def main(script):
    go_on_or_skip(script)
    unittest.main(argv=[script, *sys.argv[1:]])
