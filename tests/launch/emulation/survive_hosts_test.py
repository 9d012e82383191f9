"""launch/serve over emulated hosts, with the program itself: a machine is lost in the middle of texts, which go on over the others, token
for token as if nothing had happened. Exit code 77 if this machine cannot emulate hosts."""
import json
import os
import signal
import subprocess
import sys
import unittest

from support import DRAFT, ROOT, TARGET, emulation, main, some
from emulation.served import Server, Text, processes
from emulation.served_faults import set_link
from faults_test import wait_until

BODY = {'prompt': 'Once upon a time there was a king who', 'stream': True, 'ignore_eos': True, 'cache_prompt': False}
GREEDY = {'temperature': 0, 'seed': 1}
DRAWN = {'temperature': 1.6, 'top_k': 0, 'top_p': 1, 'min_p': 0, 'repeat_penalty': 1.2, 'seed': 5}


thorough = unittest.skipUnless(os.environ.get('YAMATA_THOROUGH'), 'only in thorough runs')


class Served(unittest.TestCase):
    HOSTS, TOKENS, LAYOUT, DELAY_MS = 3, 300, ['--layer-split', '1,1,1'], 0.1

    @classmethod
    def setUpClass(cls):
        cls.cluster = emulation.Cluster(cls.HOSTS, delay=[cls.DELAY_MS], rate=[1000])
        cls.cluster.__enter__()
        cls.addClassCleanup(cls.cluster.__exit__)
        cls.server = Server(cls.cluster, '-m', str(TARGET), '-t', '1', '-c', '1024', *cls.LAYOUT)
        cls.addClassCleanup(lambda: cls.server.process.poll() is None and cls.server.end())
        assert cls.server.wait_until_it_serves(), cls.server.said
        cls.undisturbed = {drawn: cls.ask(drawn).text() for drawn in (False, True)}
        assert len(cls.undisturbed[True]) > 300 and cls.undisturbed[True] != cls.undisturbed[False]

    @classmethod
    def ask(cls, drawn):
        return Text(cls.server, BODY | (DRAWN if drawn else GREEDY) | {'max_tokens': cls.TOKENS})

    def signal(self, pids, number):
        self.assertTrue(pids)
        for pid in pids:
            os.kill(pid, number)

    def texts_that_are_begun(self):
        texts = {drawn: self.ask(drawn) for drawn in (False, True)}
        wait_until(lambda: all(len(text.pieces) > self.TOKENS // 10 for text in texts.values()))
        return texts

    def assert_right(self, texts):
        for drawn, text in texts.items():
            self.assertEqual(text.text(), self.undisturbed[drawn], text.error)

    def check_unneeded(self, host):
        texts = self.texts_that_are_begun()
        self.signal(processes(host, 'yamata'), signal.SIGKILL)
        self.assert_right(texts)
        health = self.server.health()
        self.assertEqual((health['losses'], health['generation'], health['status']), (0, 1, 'ok'))


class SurviveHosts(Served):
    def victim(self):
        return self.cluster.hosts[1]

    def link(self, state):
        set_link(self.victim(), state)

    def whole_again(self):
        """All machines take part."""
        return self.server.health().get('status') == 'ok' and all(machine['here'] for machine in self.server.health()['machines'])

    def check(self, fault, names_machine=True):
        """Two texts at once are those without the fault, which comes in their middle."""
        wait_until(self.whole_again)
        losses = self.server.health()['losses']
        texts = self.texts_that_are_begun()
        fault()
        self.assert_right(texts)
        for text in texts.values():
            self.assertTrue(any('recovering' in comment for comment in text.comments), text.comments)
        gap = max(text.longest_gap_s() for text in texts.values())
        print(f'{self.id().rpartition(".")[2]}: {gap:.1f} s from the fault to the next token', file=sys.stderr)
        health = self.server.health()
        self.assertGreater(health['losses'], losses)
        if health['losses'] == losses + 1:  # on a busy machine, another rank may have been silent for too long
            self.assertEqual(health['machines'][1]['here'], not names_machine, health)

    def test_killed_rank(self):
        self.check(lambda: self.signal(processes(self.victim(), 'yamata'), signal.SIGKILL))

    @thorough
    def test_stopped_rank(self):
        self.check(lambda: self.signal(processes(self.victim(), 'yamata'), signal.SIGSTOP))

    def test_cut_link(self):
        self.check(lambda: self.link('down'))
        self.link('up')

    @thorough
    def test_lost_power(self):
        def power_off():
            self.link('down')
            self.victim().kill()
        self.check(power_off)
        self.link('up')

    @thorough
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


class LoseParts(Served):
    LAYOUT = ['--layer-split', '1,1/1', '-md', str(DRAFT)]

    def test_a_lost_drafter_ends_no_engine(self):
        self.check_unneeded(self.cluster.hosts[2])

    def test_killed_server_leaves_nothing(self):
        """The last test of this server."""
        self.texts_that_are_begun()
        self.server.process.kill()
        self.server.process.wait()
        wait_until(lambda: not any(emulation.runs(it) for host in self.cluster.hosts for it in host.processes()))


class LoseIdle(Served):
    LAYOUT, DELAY_MS = [], 50  # one machine alone is the fastest

    def test_a_lost_idle_rank_ends_no_engine(self):
        ranks = json.loads(self.server.ask('GET', '/props').read())['ranks']
        idle = [it['rank'] for it in ranks if it['role'] == 'idle']
        self.assertTrue(idle, ranks)
        self.check_unneeded(self.cluster.hosts[idle[-1]])


class Random(unittest.TestCase):
    """launch/faults --serve."""

    def test_random_faults_end_rightly(self):
        for flags in some(['--seeds', '3,27'], ['--seeds', '1-12'], ['--table', '--seeds', '66,145,158']):
            with self.subTest(flags=flags):
                done = subprocess.run([ROOT / 'launch' / 'faults', '--serve', *flags], stderr=subprocess.PIPE, text=True)
                self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == '__main__':
    main('survive_hosts_test', SurviveHosts, LoseParts, LoseIdle, Random)
