"""launch/serve over emulated hosts, with the program itself: a machine is lost in the middle of texts, which go on over the others, token
for token as if nothing had happened. Exit code 77 if this machine cannot emulate hosts."""
import ctypes
import http.client
import json
import os
import pathlib
import re
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
import unittest

from support import PATIENCE, ROOT, TARGET, emulation, main
from faults_test import processes, wait_until

PROMPT = 'Once upon a time there was a king who'
GREEDY = {'temperature': 0, 'seed': 1}
DRAWN = {'temperature': 1.6, 'top_k': 0, 'top_p': 1, 'min_p': 0, 'repeat_penalty': 1.2, 'seed': 5}
LIMIT_S = 60 * PATIENCE
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
    return made[0]


class Server:
    """launch/serve at the desk of a cluster."""

    def __init__(self, cluster, *words):
        self.cluster = cluster
        names = [host.name for host in cluster.hosts]
        hostfile, config = cluster.folder / 'hosts', cluster.folder / 'ssh-config'
        hostfile.write_text('\n'.join(names))
        config.write_text(''.join(f'Host {name}\n  HostName 10.77.0.{10 + i}\n' for i, name in enumerate(names)))
        launcher = cluster.command([], names=names)
        mpirun = shlex.join(launcher[launcher.index('--mca'):])
        command = [*emulation.inside(cluster.desk), sys.executable, str(ROOT / 'launch' / 'serve'), '-m', str(TARGET), '--port', '0',
                   '--hostfile', str(hostfile), '--ssh-config', str(config), '--mpirun', mpirun, '-t', '1', '-c', '1024', *words]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.said, self.port = [], None
        threading.Thread(target=self.read, daemon=True).start()
        wait_until(lambda: self.port or self.process.poll() is not None)
        assert self.port, self.said

    def read(self):
        for line in self.process.stderr:
            self.said.append(line)
            if found := re.search(r'curl http://[^:]*:([0-9]+)', line):
                self.port = int(found[1])

    def ask(self, method, path, body=None):
        connection = http.client.HTTPConnection('127.0.0.1', self.port, timeout=LIMIT_S)
        connection.sock = connect(self.cluster.desk, self.port)
        connection.request(method, path, body and json.dumps(body), {'content-type': 'application/json'})
        return connection.getresponse()

    def health(self):
        return json.loads(self.ask('GET', '/health').read())

    def mpirun(self):
        return [pid for pid in self.children(self.process.pid) if 'mpirun' in pathlib.Path(f'/proc/{pid}/comm').read_text()]

    def children(self, pid):
        return [int(child) for task in pathlib.Path(f'/proc/{pid}/task').iterdir() for child in (task / 'children').read_text().split()]

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(LIMIT_S)


class Text(threading.Thread):
    """A stream that is read; `pieces`: (time, text)."""

    def __init__(self, server, sampling, tokens):
        super().__init__(daemon=True)
        self.server, self.pieces, self.comments, self.error = server, [], [], None
        self.body = sampling | {'prompt': PROMPT, 'max_tokens': tokens, 'stream': True, 'ignore_eos': True, 'cache_prompt': False}
        self.start()

    def run(self):
        for line in self.server.ask('POST', '/v1/completions', self.body):
            if line.startswith(b':'):
                self.comments.append(line.decode().strip())
            if line.startswith(b'data: {'):
                event = json.loads(line[6:])
                self.error = event.get('error', self.error)
                self.pieces += [(time.monotonic(), choice['text']) for choice in event.get('choices', []) if choice.get('text')]

    def text(self):
        self.join(LIMIT_S)
        return ''.join(text for _, text in self.pieces)


class SurviveHosts(unittest.TestCase):
    HOSTS, TOKENS = 3, 300

    @classmethod
    def setUpClass(cls):
        cls.cluster = emulation.Cluster(cls.HOSTS, delay=[0.1], rate=[1000])
        cls.cluster.__enter__()
        cls.addClassCleanup(cls.cluster.__exit__)
        cls.server = Server(cls.cluster, '--layer-split', '1,1,1')
        cls.addClassCleanup(cls.server.end)
        cls.undisturbed = {drawn: Text(cls.server, DRAWN if drawn else GREEDY, cls.TOKENS).text() for drawn in (False, True)}
        assert len(cls.undisturbed[True]) > 300 and cls.undisturbed[True] != cls.undisturbed[False]

    def victim(self):
        return self.cluster.hosts[1]

    def link(self, state):
        emulation.run(['ip', '-n', self.victim().namespace, 'link', 'set', 'eth0', state])

    def signal(self, pids, number):
        self.assertTrue(pids)
        for pid in pids:
            os.kill(pid, number)

    def whole_again(self):
        """All machines take part."""
        return self.server.health().get('status') == 'ok' and all(machine['here'] for machine in self.server.health()['machines'])

    def check(self, fault, names_machine=True):
        """Two texts at once are those without the fault, which comes in their middle."""
        wait_until(self.whole_again)
        losses = self.server.health()['losses']
        texts = {drawn: Text(self.server, DRAWN if drawn else GREEDY, self.TOKENS) for drawn in (False, True)}
        wait_until(lambda: all(len(text.pieces) > self.TOKENS // 10 for text in texts.values()))
        fault()
        begin = time.monotonic()
        for drawn, text in texts.items():
            self.assertEqual(text.text(), self.undisturbed[drawn], text.error)
            self.assertTrue(any('recovering' in comment for comment in text.comments), text.comments)
        gap = max(b - a for text in texts.values() for (a, _), (b, _) in zip(text.pieces, text.pieces[1:]))
        print(f'{self.id().rpartition(".")[2]}: {gap:.1f} s from the fault to the next token', file=sys.stderr)
        health = self.server.health()
        self.assertEqual(health['losses'], losses + 1, ''.join(self.server.said[-20:]))
        self.assertEqual(health['machines'][1]['here'], not names_machine, health)
        return begin

    def test_killed_rank(self):
        self.check(lambda: self.signal(processes(self.victim(), 'yamata'), signal.SIGKILL))

    def test_stopped_rank(self):
        self.check(lambda: self.signal(processes(self.victim(), 'yamata'), signal.SIGSTOP))

    def test_cut_link(self):
        self.check(lambda: self.link('down'))
        self.link('up')

    def test_lost_power(self):
        def power_off():
            self.link('down')
            self.victim().kill()
        self.check(power_off)
        self.link('up')

    def test_killed_daemon(self):
        self.check(lambda: self.signal(processes(self.victim(), 'orted'), signal.SIGKILL), names_machine=False)

    def test_killed_mpirun(self):
        self.check(lambda: self.signal(self.server.mpirun(), signal.SIGKILL), names_machine=False)

    def test_stopped_mpirun(self):
        self.check(lambda: self.signal(self.server.mpirun(), signal.SIGSTOP), names_machine=False)

    def test_nothing_is_left_behind(self):
        """Of lost generations."""
        wait_until(self.whole_again)
        for host in self.cluster.hosts:
            wait_until(lambda: len(processes(host, 'yamata')) == 1 and len(processes(host, 'orted')) == 1)


if __name__ == '__main__':
    main('survive_hosts_test', SurviveHosts)
