#!/usr/bin/env python3
"""Tests what launch/cluster reads from a host file, and what it keeps beside it."""
import pathlib
import subprocess
import tempfile
import unittest

import scene  # noqa: F401
from cluster import hostfile
from common.problem import Problem

LINES = '''# two machines
attic slots=1
cellar slots=1   # ssh -p 2222 bob@192.0.2.7
barn slots=1 # by the lake
192.0.2.9  # ssh ann@192.0.2.9
'''


class HostFile(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name) / 'hosts'
        self.path.write_text(LINES)

    def test_machines_and_what_ssh_needs(self):
        found = [(host.name, host.address, host.user, host.port) for host in hostfile.read(self.path)]
        self.assertEqual(found, [('attic', 'attic', None, None), ('cellar', '192.0.2.7', 'bob', 2222), ('barn', 'barn', None, None),
                                 ('192.0.2.9', '192.0.2.9', 'ann', None)])

    def test_errors_name_the_line(self):
        for line, words in (('a|b slots=1', "line 2: 'a|b' is no name"), ('a # ssh -i key b', "line 2: '-i' is not understood"),
                            ('a slot=1', "line 2: 'slot=1' is not understood"), ('first slots=1', 'line 2: first is there already'),
                            ('a # ssh b c', "line 2: 'c' is not understood"), ('a # bob@b', "line 2: begin with 'ssh'"),
                            ('a # ssh bob@b:22', "line 2: write '-p 22 bob@b' in place of"), ('a\r', 'has the line ends of Windows'),
                            ('-oProxyCommand=x', "line 2: '-oProxyCommand=x' is no name")):
            self.path.write_text(f'first\n{line}\n')
            with self.subTest(line=line), self.assertRaisesRegex(Problem, words.replace('|', r'\|')):
                hostfile.read(self.path)
        self.path.write_text('# nothing\n')
        with self.assertRaisesRegex(Problem, 'names no machine'):
            hostfile.read(self.path)
        with self.assertRaisesRegex(Problem, 'does not exist'):
            hostfile.read(self.path.with_name('none'))

    def test_ssh_reads_the_settings(self):
        hosts, settings = hostfile.read(self.path), hostfile.Settings(self.path)
        self.assertFalse(settings.is_there)
        settings.network, settings.has_program = '192.0.2.0/24', True
        settings.write(hosts)
        said = subprocess.run(['ssh', '-G', '-F', str(settings.path), 'cellar'], capture_output=True, text=True, check=True).stdout
        for line in 'hostname 192.0.2.7', 'user bob', 'port 2222', 'batchmode yes', 'stricthostkeychecking true':
            self.assertIn(f'{line}\n', said)
        again = hostfile.Settings(self.path)
        self.assertEqual((again.is_there, again.network, again.has_program), (True, '192.0.2.0/24', True))
        words = ' '.join(again.mpirun_words())
        self.assertIn('--mca btl_tcp_if_include 192.0.2.0/24', words)
        self.assertIn(f'--mca plm_rsh_args -F {settings.path.resolve()}', words)

    def test_another_host_file_is_noticed(self):
        settings = hostfile.Settings(self.path)
        settings.write(hostfile.read(self.path))
        for old, new, changed in (('2222', '2223', 'cellar'), ('  # ssh ann@192.0.2.9', '', '192.0.2.9'), ('barn', 'shed', 'shed')):
            self.path.write_text(LINES.replace(old, new))
            with self.subTest(new=new), self.assertRaisesRegex(Problem, f'says something else of {changed} than hosts.ssh; run: '):
                hostfile.Settings(self.path).require_hosts(hostfile.read(self.path))
        self.path.write_text(LINES.replace('by the lake', 'by the sea').replace('attic', '# attic'))
        hostfile.Settings(self.path).require_hosts(hostfile.read(self.path))

    def test_addresses_are_those_of_ssh(self):
        self.path.write_text('here slots=1 # ssh -p 2222 127.0.0.1\nthere slots=1 # ssh eve@192.0.2.7\n')
        hosts, settings = hostfile.read(self.path), hostfile.Settings(self.path)
        settings.write(hosts)
        hostfile.resolve(hosts, settings.path)
        self.assertEqual([(host.address, host.port, host.is_here) for host in hosts], [('127.0.0.1', 2222, True), ('192.0.2.7', 22, False)])


if __name__ == '__main__':
    unittest.main()
