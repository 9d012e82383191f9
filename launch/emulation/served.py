"""launch/serve at the desk of an emulated cluster, and clients of it."""
import ctypes
import http.client
import json
import pathlib
import re
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time

from common import places

from . import hosts as emulation
from .campaign import PATIENCE

LIMIT_S = 90 * PATIENCE
NEW_NETWORK = 0x40000000


def connect(namespace, port):
    """A connection to a server in a network namespace: a socket belongs to that of the thread that makes it."""
    made = []

    def enter():
        with open(f'/run/netns/{namespace}', 'rb') as file:
            if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), NEW_NETWORK):
                raise OSError(ctypes.get_errno(), 'setns')
        made.append(socket.create_connection(('127.0.0.1', port), LIMIT_S))
    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    if not made:
        raise OSError('the server cannot be reached')
    return made[0]


def name_of(process):
    try:
        return pathlib.Path(f'/proc/{process}/comm').read_text().strip()
    except OSError:
        return ''


def processes(host, name):
    return [process for process in host.processes() if name_of(process) == name]


def children_of(process):
    try:
        tasks = pathlib.Path(f'/proc/{process}/task').iterdir()
        return [int(child) for task in tasks for child in (task / 'children').read_text().split()]
    except OSError:
        return []


class Server:
    """`said`: its lines; `port`: once it serves."""

    def __init__(self, cluster, *words):
        self.cluster = cluster
        names = [host.name for host in cluster.hosts]
        hostfile, config = cluster.folder / 'hosts', cluster.folder / 'ssh-config'
        hostfile.write_text('\n'.join(names))
        config.write_text(''.join(f'Host {name}\n  HostName 10.77.0.{10 + i}\n' for i, name in enumerate(names)))
        launcher = cluster.command([], names=names)
        mpirun = shlex.join(launcher[launcher.index('--mca'):])
        command = [*emulation.inside(cluster.desk), sys.executable, str(places.LAUNCH / 'serve'), '--port', '0',
                   '--hostfile', str(hostfile), '--ssh-config', str(config), '--mpirun', mpirun, *words]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.said, self.port, self.serves = [], None, threading.Event()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stderr:
            self.said.append(line)
            if found := re.search(r'curl http://[^:]*:([0-9]+)', line):
                self.port = int(found[1])
                self.serves.set()
        self.serves.set()

    def wait_until_it_serves(self):
        """Whether it does."""
        return self.serves.wait(LIMIT_S) and self.port is not None

    def ask(self, method, path, body=None):
        connection = http.client.HTTPConnection('127.0.0.1', self.port, timeout=LIMIT_S)
        connection.sock = connect(self.cluster.desk, self.port)
        connection.request(method, path, body and json.dumps(body), {'content-type': 'application/json'})
        return connection.getresponse()

    def health(self):
        return json.loads(self.ask('GET', '/health').read())

    def mpirun(self):
        return [child for child in children_of(self.process.pid) if name_of(child) == 'mpirun']

    def end(self, number=signal.SIGTERM):
        """Cancels everything; its exit code."""
        for _ in range(2):
            self.process.send_signal(number)
        return self.process.wait(LIMIT_S)


class Text(threading.Thread):
    """A text that is asked for and read. `pieces`: (time, text); `reason`: why it ended; `error`: if there was one. `leave_after`: the
    client leaves after so many pieces."""

    def __init__(self, server, body, leave_after=None):
        super().__init__(daemon=True)
        self.server, self.body, self.leave_after = server, body, leave_after
        self.pieces, self.comments, self.error, self.reason, self.begin = [], [], None, None, time.monotonic()
        self.start()

    def run(self):
        try:
            answer = self.server.ask('POST', '/v1/completions', self.body)
            if self.body.get('stream'):
                for line in answer:
                    self.take(line.decode())
                    if self.leave_after is not None and len(self.pieces) >= self.leave_after:
                        return answer.close()
            else:
                self.take_event(json.loads(answer.read()))
        except (OSError, ValueError, http.client.HTTPException) as error:
            self.error = self.error or repr(error)

    def take(self, line):
        if line.startswith(':'):
            self.comments.append(line[1:].strip())
        if line.startswith('data: {'):
            self.take_event(json.loads(line[6:]))

    def take_event(self, event):
        self.error = event.get('error', self.error)
        for choice in event.get('choices', []):
            self.reason = choice.get('finish_reason') or self.reason
            if choice.get('text'):
                self.pieces.append((time.monotonic(), choice['text']))

    def text(self):
        self.join(LIMIT_S)
        return self.text_so_far()

    def text_so_far(self):
        return ''.join(text for _, text in self.pieces)

    def longest_gap_s(self):
        times = [at for at, _ in self.pieces]
        return max((b - a for a, b in zip(times, times[1:])), default=0)


class Undisturbed:
    """The texts of requests without faults, which depend on few of their fields."""

    def __init__(self):
        self.texts = {}

    def key(self, body):
        return json.dumps([body[name] for name in ('prompt', 'temperature', 'seed')])

    def learn(self, server, body):
        if self.key(body) not in self.texts:
            self.texts[self.key(body)] = Text(server, body).text()

    def text(self, body):
        return self.texts[self.key(body)]
