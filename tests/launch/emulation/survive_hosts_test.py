"""launch/serve over emulated hosts, with the program itself: a machine is lost in the middle of texts, which go on over the others, token
for token as if nothing had happened. Exit code 77 if this machine cannot emulate hosts."""
import os
import signal
import sys
import unittest

from support import TARGET, emulation, main
from emulation.served import Server, Text, processes
from faults_test import wait_until

BODY = {'prompt': 'Once upon a time there was a king who', 'stream': True, 'ignore_eos': True, 'cache_prompt': False}
GREEDY = {'temperature': 0, 'seed': 1}
DRAWN = {'temperature': 1.6, 'top_k': 0, 'top_p': 1, 'min_p': 0, 'repeat_penalty': 1.2, 'seed': 5}


thorough = unittest.skipUnless(os.environ.get('YAMATA_THOROUGH'), 'only in thorough runs')


class SurviveHosts(unittest.TestCase):
    HOSTS, TOKENS = 3, 300

    @classmethod
    def setUpClass(cls):
        cls.cluster = emulation.Cluster(cls.HOSTS, delay=[0.1], rate=[1000])
        cls.cluster.__enter__()
        cls.addClassCleanup(cls.cluster.__exit__)
        cls.server = Server(cls.cluster, '-m', str(TARGET), '-t', '1', '-c', '1024', '--layer-split', '1,1,1')
        cls.addClassCleanup(cls.server.end)
        assert cls.server.wait_until_it_serves(), cls.server.said
        cls.undisturbed = {drawn: cls.ask(drawn).text() for drawn in (False, True)}
        assert len(cls.undisturbed[True]) > 300 and cls.undisturbed[True] != cls.undisturbed[False]

    @classmethod
    def ask(cls, drawn):
        return Text(cls.server, BODY | (DRAWN if drawn else GREEDY) | {'max_tokens': cls.TOKENS})

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
        texts = {drawn: self.ask(drawn) for drawn in (False, True)}
        wait_until(lambda: all(len(text.pieces) > self.TOKENS // 10 for text in texts.values()))
        fault()
        for drawn, text in texts.items():
            self.assertEqual(text.text(), self.undisturbed[drawn], text.error)
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


if __name__ == '__main__':
    main('survive_hosts_test', SurviveHosts)
