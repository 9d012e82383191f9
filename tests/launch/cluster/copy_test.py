#!/usr/bin/env python3
"""launch/cluster copy on emulated machines that have ssh and perl, and different homes: all get the same bytes, over a chain; full disks,
folders that cannot be written, lost machines, closed ports and Ctrl-C are a line each, and leave no half file."""
import contextlib
import pathlib
import re
import signal
import subprocess

from machines_case import OnMachines, main

FIREWALL = 'table inet planted { chain in { type filter hook input priority 0; tcp dport 10000-10999 drop; }; }'
COMMAND = rb'[^\0]*python3[^\0]*\0[^\0]*launch/cluster\0copy'
FILE = 'files/weights.bin'


def command_of(pid):
    return pathlib.Path(f'/proc/{pid}/cmdline').read_bytes()


class Copying(OnMachines):
    COUNT, RATE = 4, 1000

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for machine in cls.machines.all:
            cls.ada.run(f'mkdir -p .ssh; ssh-keyscan -p {machine.port} {machine.address} >> .ssh/known_hosts')
        cls.others = cls.machines.all[1:]
        cls.bob, cls.cleo, cls.dan = cls.others

    def setUp(self):
        for machine in self.machines.all:
            self.on(machine, 'rm -rf files')
        self.on(self.ada, f'mkdir files; head -c 30000000 /dev/urandom > {FILE}; chmod 640 {FILE}')
        self.sum = self.on(self.ada, f'sha256sum < {FILE}')

    def assert_copied(self, *machines, path=FILE):
        """These have it, the others nothing; and nobody a part of it."""
        for machine in self.others:
            with self.subTest(machine.name):
                self.assertEqual(machine.run(f'sha256sum < {path}').stdout, self.sum if machine in machines else '')
                self.assertEqual(machine.run('find files -name "*part*"').stdout, '')

    @contextlib.contextmanager
    def at_rate(self, mbit):
        for host in range(self.COUNT):
            self.cluster.tell('rate', host, mbit)
        try:
            yield
        finally:
            for host in range(self.COUNT):
                self.cluster.tell('rate', host, self.RATE)

    def start(self):
        return subprocess.Popen(self.ada.inside(f'exec yamata/launch/cluster copy hosts {FILE}'), stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def wait_for_part(self, machine, job):
        while machine.run(f'find {FILE}.yamata-part -size +100k').stdout == '':
            self.assertIsNone(job.poll(), job.poll() is None or job.stdout.read())

    def test_all_get_it_once(self):
        said = self.run_here(f'copy hosts {FILE}')
        self.assertRegex(said, r'\Aweights.bin \(28.6 MiB\): copied to 3 machines in [0-9.]+ s\n\Z')
        self.assert_copied(*self.others)
        self.assertEqual(self.on(self.bob, f'stat -c %a {FILE}'), '640\n')
        self.assertIn('there already on 3 machines\n', self.run_here(f'copy hosts {FILE}'))
        self.on(self.cleo, f'printf x | dd of={FILE} bs=1 seek=5000000 conv=notrunc status=none')
        self.assertRegex(self.run_here(f'copy hosts {FILE}'), 'copied to 1 machine in .*, there already on 2 machines')
        self.assert_copied(*self.others)

    def test_a_chain_sends_each_byte_once(self):
        sent = '/sys/class/net/eth0/statistics/tx_bytes'
        before = int(self.on(self.ada, f'cat {sent}'))
        self.run_here(f'copy hosts {FILE}')
        self.assertLess(int(self.on(self.ada, f'cat {sent}')) - before, 40_000_000)
        self.assert_copied(*self.others)

    def test_paths_outside_a_home_and_odd_names(self):
        self.on(self.ada, f"mkdir -p /tmp/a/b; cp {FILE} '/tmp/a/b/it is $1'; : > files/empty")
        self.run_here("copy hosts '/tmp/a/b/it is $1' files/empty")
        for machine in self.others:
            self.assertEqual(self.on(machine, "sha256sum < '/tmp/a/b/it is $1'; wc -c < files/empty"), f'{self.sum}0\n')
        for machine in self.machines.all:
            self.on(machine, 'rm -r /tmp/a')

    def test_bad_usage(self):
        self.assertIn('files is a folder; name files', self.run_here('copy hosts files', 1))
        self.assertIn('nothing does not exist; name files', self.run_here('copy hosts nothing', 1))

    @contextlib.contextmanager
    def disk_of_bob(self, size):
        self.as_root(self.bob, f'cd {self.bob.person.home}; mkdir files;mount -t tmpfs -o size={size},uid={self.bob.person.uid} none files')
        try:
            yield
        finally:
            self.as_root(self.bob, f'cd {self.bob.person.home}; umount files; rm -r files')

    def test_a_full_disk(self):
        with self.disk_of_bob('8m'):
            said = self.run_here(f'copy hosts {FILE}', 1)
            self.assertRegex(said, r'(?m)^n1: it has not got weights.bin: .*files has 8.0 MiB left; free some')
            self.assertRegex(said, 'copied to 2 machines in .*, not on 1 machine')
            self.assert_copied(self.cleo, self.dan)

    def test_a_disk_that_fills_in_the_middle(self):
        with self.disk_of_bob('32m'), self.at_rate(40):
            job = self.start()
            self.wait_for_part(self.bob, job)
            self.on(self.bob, 'head -c 20000000 /dev/zero > files/other')
            self.assertRegex(job.communicate()[0], r'n1: it has not got weights.bin: it cannot be written \(No space left')
            self.assert_copied(self.cleo, self.dan)

    def test_folders_that_cannot_be_written(self):
        self.as_root(self.bob, f'mkdir {self.bob.person.home}/files')
        self.as_root(self.cleo, f'mount --bind {self.cleo.person.home} {self.cleo.person.home} && '
                     f'mount -o remount,bind,ro {self.cleo.person.home}')
        self.on(self.dan, f'mkdir -p {FILE}')
        try:
            said = self.run_here(f'copy hosts {FILE}', 1)
        finally:
            self.as_root(self.cleo, f'umount {self.cleo.person.home}')
            self.as_root(self.bob, f'rmdir {self.bob.person.home}/files')
        for words in (r'n1: .*files cannot be written \(Permission denied\); let bob write there',
                      r'n2: .*files cannot be made \(Read-only file system\); make it there: sudo install -d -o cleo',
                      r'n3: .*weights.bin is a folder there; remove it'):
            self.assertRegex(said, f'(?m)^{words}')

    def test_a_machine_that_dies_in_the_middle(self):
        with self.at_rate(40):
            job = self.start()
            self.wait_for_part(self.dan, job)
            self.link(self.cleo, 'down')
            self.cleo.power_off()
            said = job.communicate()[0]
        self.link(self.cleo, 'up')
        self.machines.boot(self.cleo)
        self.cleo.wait_until_it_answers()
        self.assertEqual(job.returncode, 1)
        self.assertRegex(said, r'(?m)^n2: it has not got weights.bin: it was lost \(.*\); mend that')
        self.on(self.cleo, 'rm -f files/*part')
        self.assert_copied(self.bob, self.dan)

    def test_a_process_that_is_killed_in_the_middle(self):
        with self.at_rate(40):
            job = self.start()
            self.wait_for_part(self.dan, job)
            self.on(self.bob, 'kill -9 $(cat /proc/[0-9]*/stat | grep "(perl)" | cut -d" " -f1)')
            said = job.communicate()[0]
        self.assertRegex(said, r'(?m)^n1: it has not got weights.bin: it (has stopped|was lost) \(.*\); mend that')
        self.on(self.bob, 'rm files/*part')
        self.assert_copied(self.cleo, self.dan)

    def test_interrupted(self):
        with self.at_rate(40):
            job = self.start()
            self.wait_for_part(self.dan, job)
            pid, = [pid for pid in self.ada.host.processes() if re.match(COMMAND, command_of(pid))]
            subprocess.run(['kill', f'-{signal.SIGINT}', str(pid)])
            said = job.communicate()[0]
        self.assertEqual((job.returncode, said), (130, 'cluster: interrupted\n'))
        for machine in self.others:
            while machine.run('cat /proc/[0-9]*/comm | grep -x perl').stdout:
                pass
        self.assert_copied()

    def test_closed_ports(self):
        namespace = ['ip', 'netns', 'exec', self.cleo.host.namespace, 'nft']
        subprocess.run([*namespace, '-f', '-'], input=FIREWALL, text=True, check=True)
        try:
            said = self.run_here(f'copy hosts {FILE}')
        finally:
            subprocess.run([*namespace, 'flush', 'ruleset'], check=True)
        self.assertRegex(said, r'(?m)^n2 cannot be reached on port 100[0-9]+ from n1 \(no answer\): weights.bin goes over ssh to one')
        self.assertEqual(len(said.splitlines()), 2, said)
        self.assert_copied(*self.others)

    def test_who_does_not_know_the_token_is_sent_away(self):
        relay = 'perl yamata/launch/python/cluster/relay.pl files/got 9 644 127.0.0.1 10500 10599'
        script = f'''
import socket, subprocess
relay = subprocess.Popen({relay.split()}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
def line():
    return relay.stdout.readline().split()
relay.stdin.write('right\\n')
port = int(line()[1])
connected = [socket.create_connection(('127.0.0.1', port), 10) for _ in range(3)]
connected[0].sendall(b'wr')
connected[1].sendall(b'wrong' + b'bad bytes')
try:
    assert connected[1].recv(1) == b''
except ConnectionResetError:
    pass
connected[2].sendall(b'right')
assert line() == ['joined']
connected[2].sendall(b'and bytes')
while (said := line())[0] == 'at':
    pass
print(said[0])
relay.stdin.write('keep\\n')
print(line()[0], open('files/got').read())
'''
        done = subprocess.run(self.ada.inside('python3 -'), input=script, capture_output=True, text=True)
        self.assertEqual(done.stdout, 'sum\nkept and bytes\n', done.stderr)


if __name__ == '__main__':
    main('copy_test', Copying)
