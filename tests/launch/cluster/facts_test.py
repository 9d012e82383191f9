#!/usr/bin/env python3
"""Tests what launch/cluster concludes from what machines say, and from what ssh says of them."""
import subprocess
import unittest

import scene  # noqa: F401
from cluster import facts, network, remote
from cluster.hostfile import Host

SOUND = {'hostname': 'attic', 'machine': 'x86_64', 'release': 'debian 12', 'user': 'bob', 'home': '/home/bob', 'orted': '/usr/bin/orted',
         'openmpi': '4.1.4', 'packages': 'libopenmpi3=4.1.4-3+b1 libpmix2=4.2.2-1', 'program': 'abc', 'runs': 'yamata 0.1.0 (commit 1)',
         'home_free_kib': '9000000', 'home_writable': 'yes', 'temporary': '/tmp', 'temporary_free_kib': '9000000',
         'temporary_writable': 'yes', 'shared_free_kib': '9000000',
         'shared_writable': 'yes', 'files': '1024', 'processes': 'unlimited',
         'virtual': 'unlimited', 'file_size': 'unlimited', 'tcp': 'cubic'}


def machine(name='attic', noise='', **others):
    values = SOUND | others
    lines = [noise] * bool(noise) + [facts.FIRST_LINE, *(f'{key}={value}' for key, value in values.items()), 'end=yes']
    return facts.Facts(Host(name), remote.Answer(0, '\n'.join(lines) + '\n', ''))


class Faults(unittest.TestCase):
    CASES = [  # (what differs, the kind of the fault, a part of its line)
        ({'orted': '', 'openmpi': ''}, 'packages', 'Open MPI is not installed'),
        ({'openmpi': '5.0.3'}, 'version', 'it has Open MPI 5.0.3, this machine 4.1.4'),
        ({'packages': 'libopenmpi3=4.1.4-4 libpmix2=4.2.2-1'}, 'version', 'libopenmpi3 is 4.1.4-4, here 4.1.4-3'),
        ({'packages': 'libopenmpi3=4.1.4-3+b1'}, 'packages', 'libpmix2 is missing'),
        ({'program': '', 'runs': 'sh: yamata: not found'}, 'program', 'not installed'),
        ({'program': 'abd'}, 'program', 'another version of the program'),
        ({'runs': 'yamata: error while loading shared libraries: libfmt.so.9: cannot open'}, 'packages', 'lacks libfmt.so.9'),
        ({'runs': 'sh: yamata: cannot execute binary file: Exec format error'}, 'program', 'another kind of machine'),
        ({'home_free_kib': '1000'}, 'disk', '/home/bob has only 1 MiB left'),
        ({'home_writable': ''}, 'home', '/home/bob cannot be written'),
        ({'temporary_writable': ''}, 'temporary', '/tmp cannot be written'),
        ({'temporary_free_kib': '1000'}, 'temporary', '/tmp has only 1 MiB left'),
        ({'shared_writable': ''}, 'shared', '/dev/shm cannot be written'),
        ({'shared_free_kib': '1000'}, 'shared', 'raise --shm-size'),
        ({'files': '64'}, 'limit', 'only 64 open files'),
        ({'processes': '20'}, 'limit', 'only 20 processes'),
        ({'virtual': '1000000'}, 'limit', 'ulimit -v'),
        ({'file_size': '1000'}, 'limit', 'ulimit -f'),
        ({'tcp': 'bbr'}, 'tcp', 'cubic'),
    ]

    def faults(self, its):
        return facts.faults_of(its, machine('head'), 'abc')

    def test_a_sound_machine_has_none(self):
        self.assertEqual(self.faults(machine()), [])
        self.assertEqual(self.faults(machine(packages='libopenmpi3=4.1.4-3 libpmix2=4.2.2-1')), [], 'a rebuild is the same version')
        self.assertEqual(self.faults(machine(machine='aarch64', program='')), [], 'made there by hand')

    def test_each_fault_has_its_line(self):
        for differs, kind, part in self.CASES:
            with self.subTest(differs):
                found = self.faults(machine(**differs))
                self.assertEqual([fault.kind for fault in found], [kind])
                self.assertRegex(found[0].line(), r'^attic: [^\n]+; [^\n]+$')
                self.assertIn(part, found[0].line())

    def test_words_before_commands_are_a_warning(self):
        found, = self.faults(machine(noise='Welcome to attic'))
        self.assertEqual((found.kind, found.stops), ('noise', False))

    def test_what_ssh_says(self):
        host = Host('attic', '192.0.2.7', 'bob', 2222)
        for said, kind, part in (
                ('ssh: Could not resolve hostname attic: Name or service not known', 'name', '# ssh bob@ADDRESS'),
                ('@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed.', 'changed key',
                 "ssh-keygen -R '[192.0.2.7]:2222'"),
                ('No ED25519 host key is known for [192.0.2.7]:2222\nHost key verification failed.', 'unknown key', 'launch/cluster setup'),
                ('bob@192.0.2.7: Permission denied (publickey).', 'key', 'bob'),
                ('ssh: connect to host 192.0.2.7 port 2222: Connection refused', 'refused', 'port 2222'),
                ('ssh: connect to host 192.0.2.7 port 2222: Connection timed out', 'down', 'does not answer'),
                ('ssh: connect to host 192.0.2.7 port 2222: No route to host', 'down', 'cannot be reached'),
                ('kex_exchange_identification: Connection closed', 'ssh', 'Connection closed')):
            fault = facts.Facts(host, remote.Answer(255, '', said)).fault
            self.assertEqual(fault.kind, kind, said)
            self.assertIn(part, fault.line())

    def test_a_shell_that_ends_or_waits(self):
        for answer in remote.Answer(0, '', ''), remote.Answer(0, 'Bye\n', ''), remote.Answer(None, 'Which one?', ''):
            self.assertEqual(facts.Facts(Host('attic'), answer).fault.kind, 'shell')
        self.assertEqual(facts.Facts(Host('attic'), remote.Answer(None, '', '')).fault.kind, 'down')
        cut = f'{facts.FIRST_LINE}\nhome=/home/bob\n'
        self.assertEqual(facts.Facts(Host('attic'), remote.Answer(0, cut, '')).values, {})

    def test_names_that_mpirun_confuses(self):
        found = facts.names([Host('a.lab1'), Host('a.lab2'), Host('192.0.2.1'), Host('192.0.2.2')])
        self.assertEqual([(fault.kind, fault.machine) for fault in found], [('label', 'a.lab2')])
        here = Host('a-name-that-nobody-knows', '127.0.0.1')
        here.is_here = True
        self.assertEqual([fault.kind for fault in facts.names([here])], ['name'])

    def test_the_probe_is_for_any_shell(self):
        said = subprocess.run(['dash', facts.PROBE], capture_output=True, text=True)
        self.assertEqual(said.returncode, 0, said.stderr)
        here = facts.Facts(Host('here'), remote.Answer(0, said.stdout, ''))
        self.assertIsNone(here.fault)
        for name in 'machine', 'user', 'home', 'perl', 'cores', 'memory_kib', 'home_free_kib', 'files', 'routes':
            self.assertTrue(here[name], name)


class Networks(unittest.TestCase):
    def at(self, name, addresses, *routes):
        return machine(name, addresses=addresses, routes=' '.join(routes))

    def test_the_network_in_which_each_has_its_own_address(self):
        docker, lan, fast = 'docker0/000011AC/0000FFFF', 'eth0/0001A8C0/00FFFFFF', 'eth1/0000000A/00FFFFFF'
        one = self.at('a', '172.17.0.1 192.168.1.5 10.0.0.1 fe80::1', docker, lan, fast)
        two = self.at('b', '172.17.0.1 192.168.1.6 10.0.0.2', docker, lan, fast)
        three = self.at('c', '192.168.1.7', lan)
        shown = lambda found: [(str(its), there) for its, there in found]
        self.assertEqual(shown(network.common([one, two, three])),
                         [('192.168.1.0/24', {'a': '192.168.1.5', 'b': '192.168.1.6', 'c': '192.168.1.7'})])
        one.host.address, two.host.address = '10.0.0.1', '10.0.0.2'
        self.assertEqual([its for its, _ in shown(network.common([one, two]))], ['10.0.0.0/24', '192.168.1.0/24'])
        bridge = 'enp3s0/000011AC/0000FFFF'
        self.assertEqual(network.common([self.at('a', '172.17.0.1', bridge), self.at('b', '172.17.0.1', bridge)]), [])

    def test_closed_ports_are_one_line_a_machine(self):
        closed = [('a', 'b', 10000, 'no answer'), ('c', 'b', 11000, 'no answer'), ('b', 'a', 10000, 'refused')]
        found = list(network.fault_of(closed, '192.0.2.0/24'))
        self.assertEqual([fault.machine for fault in found], ['b', 'a'])
        self.assertIn('a, c cannot reach it on port 10000, 11000 (no answer)', found[0].line())


if __name__ == '__main__':
    unittest.main()
