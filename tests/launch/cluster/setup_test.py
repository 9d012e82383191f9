#!/usr/bin/env python3
"""launch/cluster setup and run on emulated machines of which each has a person, a home and an ssh port of its own, and nothing but ssh and
perl: from the host file to a text. And what goes wrong on the way leaves nothing half-installed."""
import contextlib
import os
import pty
import signal
import subprocess
import time

from machines_case import MODEL, TOKENS, OnMachines, main
from scene import ROOT
from emulation.campaign import PATIENCE

LIMIT_S = 120 * PATIENCE  # from the host file to a text, without downloads
RUN = f'run hosts -m $PWD/{MODEL} -p "Once upon a time" -n {TOKENS} -t 1'


class FromBareMachines(OnMachines):
    COUNT, RATE = 4, 100

    def test_two_commands_from_the_host_file_to_a_text(self):
        for machine in self.machines.all:
            self.assertNotEqual(machine.run('command -v orted || ls .local/lib/yamata').returncode, 0)
        begin = time.monotonic()
        said = self.run_here('setup hosts --yes')
        self.assertIn('\n4 machines are ready: ', said)
        done = self.ada.run(f'yamata/launch/cluster {RUN} --layer-split 1,1,1,1')
        text = done.stdout
        self.assertIn('layers 6-7 on rank 3 (n3)', done.stderr)
        self.assertLess(time.monotonic() - begin, LIMIT_S)
        self.assertEqual(text, self.alone())
        again = self.run_here('setup hosts --yes')
        self.assertRegex(again, r'\A4 machines are ready: [^\n]*\nmpirun takes: [^\n]*\n\Z')
        status = self.run_here('status hosts')
        self.assertEqual(status.count('the same'), 4, status)
        served = self.served_text()
        self.assertEqual(served, text.rstrip('\n'))

    def served_text(self):
        """What launch/serve answers, with the same host file."""
        script = f'''
import json, re, subprocess, urllib.request
server = subprocess.Popen(['yamata/launch/serve', '-m', '{MODEL}', '--hostfile', 'hosts', '--port', '8765', '-t', '1'],
                          stderr=subprocess.PIPE, text=True)
said = []
for line in server.stderr:
    said.append(line)
    if 'curl http' in line:
        break
else:
    raise SystemExit(''.join(said))
body = json.dumps({{'prompt': 'Once upon a time', 'max_tokens': {TOKENS}, 'temperature': 0}}).encode()
request = urllib.request.Request('http://127.0.0.1:8765/v1/completions', body, {{'content-type': 'application/json'}})
print(json.load(urllib.request.urlopen(request))['choices'][0]['text'], end='')
server.terminate()
server.wait()
'''
        done = subprocess.run(self.ada.inside('python3 -'), input=script, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout


class Untouched(OnMachines):
    COUNT = 2

    def test_what_is_only_shown_changes_nothing(self):
        before = self.on(self.ada, 'ls -A; ls .ssh')
        self.assertIn('nothing was changed', self.run_here('setup hosts --dry-run'))
        after = self.on(self.ada, 'rm hosts.ssh; ls -A; ls .ssh')
        self.assertEqual(before, after)

    def test_a_command_of_the_person_on_new_machines(self):
        done = subprocess.run([ROOT / 'launch/emulate', '--ssh', '--hosts', '2', '--', 'sh', '-c', 'id -un; wc -l < hosts; exit 7'],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (7, 'ada\n2\n'), done.stderr)

    def test_without_a_terminal_it_asks_for_yes(self):
        """After all that it would do."""
        for machine in self.machines.all:
            self.on(self.ada, f'mkdir -p .ssh; ssh-keyscan -p {machine.port} {machine.address} >> .ssh/known_hosts')
        said = self.run_here('setup hosts', 1)
        self.on(self.ada, 'rm .ssh/known_hosts')
        self.assertRegex(said, r'(?s)n0: packages .*n1: packages .*\ncluster: nothing was changed.*--yes agrees to all of it\n\Z')


class Interrupted(OnMachines):
    def setUp(self):
        self.bob = self.machines.all[1]

    def test_1_no_sudo(self):
        self.as_root(self.bob, 'mv /etc/sudoers.d/people /root/')
        said = self.run_here('setup hosts --yes', 1)
        self.assertRegex(said, r'(?m)^n1: bob may not become root there without a password; run: ssh -t -p 2201 bob@10.77.0.11 sudo ')
        self.assertNotRegex(said, '(?m)^n[02]: .*; ')
        self.as_root(self.bob, 'mv /root/people /etc/sudoers.d/')

    def test_2_killed_in_the_middle(self):
        setup = subprocess.Popen(self.ada.inside('yamata/launch/cluster setup hosts --yes'), stdin=subprocess.DEVNULL,
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while self.bob.run('dpkg -s libopenmpi3 2>/dev/null | grep -q "^Status: .*half\\|unpacked"').returncode and setup.poll() is None:
            pass
        for pid in self.ada.host.processes():
            name = open(f'/proc/{pid}/cmdline').read()
            if 'launch/cluster' in name or name.startswith('ssh\0'):
                subprocess.run(['kill', f'-{signal.SIGKILL}', str(pid)])
        setup.wait()
        self.assertIn('3 machines are ready', self.run_here('setup hosts --yes'))

    def test_3_a_full_disk(self):
        home = self.bob.person.home
        self.on(self.bob, 'rm -r .local')
        self.as_root(self.bob, f'cp -a {home} /tmp/kept && mount -t tmpfs -o mode=755,size=3m tmpfs {home} && cp -a /tmp/kept/. {home}/ && '
                     f'chown bob:bob {home}')
        said = self.run_here('setup hosts --yes', 1)
        self.assertRegex(said, r'(?m)^n1: the program was not installed \(.*No space left on device\); mend that')
        self.assertEqual(self.on(self.bob, 'find .local -type f'), '')
        self.as_root(self.bob, f'umount -l {home}; rm -r /tmp/kept')
        self.assertIn('3 machines are ready', self.run_here('setup hosts --yes'))

    def test_4_a_machine_that_is_down(self):
        self.on(self.machines.all[2], 'rm -r .local')
        self.link(self.bob, 'down')
        said = self.run_here('setup hosts --yes', 1)
        self.link(self.bob, 'up')
        self.assertRegex(said, '(?m)^n1: 10.77.0.11 (does not answer|cannot be reached)')
        self.assertEqual(self.on(self.machines.all[2], 'ls .local/lib/yamata/x86_64').split(), ['yamata', 'yamata.from'])


class OfTwoArchitectures(OnMachines):
    """The second machine says that it is another one. Its program is from a package, as launch/package makes them."""
    COUNT = 2
    SAYS_ARM = '#!/bin/sh\n[ "$1" = -m ] && echo aarch64 && exit\nexec /bin/uname "$@"\n'

    def set_up(self, code=0):
        done = self.ada.run('YAMATA_BUILD=$PWD/build yamata/launch/cluster setup hosts --yes 2>&1')
        self.assertEqual(done.returncode, code, done.stdout)
        return done.stdout

    def make_package(self, commit):
        self.on(self.ada, f"""set -e; mkdir -p p/DEBIAN p/usr/bin
            printf 'Package: yamata\nVersion: 1\nArchitecture: arm64\nMaintainer: a\nDescription: b\n' > p/DEBIAN/control
            sed "s/$(build/yamata --version | grep -oE '[0-9a-f]{{7,}}')/{commit}/" build/yamata > p/usr/bin/yamata
            chmod 755 p/usr/bin/yamata; dpkg-deb -b p build/packages/yamata_1_arm64.deb""")

    def test_each_gets_the_program_for_its_own(self):
        bob = self.machines.all[1]
        self.on(self.ada, 'mkdir -p build/packages; ln -s ../yamata/build/yamata build/')
        self.set_up()
        self.as_root(bob, f"printf '%b' '{self.SAYS_ARM}' > /usr/local/bin/uname; chmod 755 /usr/local/bin/uname")
        said = self.set_up(1)
        self.assertRegex(said, r'(?m)^n1: the program \(~/.local/lib/yamata\) for aarch64, compiled here')
        self.assertRegex(said, '(?m)^n1: it is aarch64 with debian 12, .*needs a program of its own')
        self.make_package('0000000000')
        self.assertIn('needs a program of its own', self.set_up(1))
        self.make_package('&')
        self.assertIn('2 machines are ready', self.set_up())
        self.assertEqual(self.on(bob, 'ls .local/lib/yamata/aarch64').split(), ['yamata', 'yamata.from'])
        self.assertEqual(self.ada.run(f'yamata/launch/cluster {RUN} --layer-split 1,1').stdout, self.alone())


class Strangers(OnMachines):
    COUNT, AUTHORIZED = 2, False

    def test_a_key_is_made_and_where_to_put_it_is_said(self):
        self.on(self.ada, 'rm .ssh/id_ed25519*')
        said = self.run_here('setup hosts --yes', 1)
        self.assertIn('your key: a new one, ~/.ssh/id_ed25519', said)
        self.assertRegex(said, r'(?m)^n1: bob needs a password there, and there is no terminal to ask for it; run: ssh-copy-id -p 2201')
        key = self.on(self.ada, 'cat .ssh/id_ed25519.pub')
        self.as_root(self.machines.all[1], f'cd {self.machines.all[1].person.home}; echo "{key.strip()}" > .ssh/authorized_keys')
        self.assertIn('2 machines are ready', self.run_here('setup hosts --yes'))

    def test_a_password_is_asked_for_once(self):
        bob = self.machines.all[1]
        self.as_root(bob, f'rm -f {bob.person.home}/.ssh/authorized_keys; echo bob:sesame | chpasswd; '
                     'sed -i "s/^PasswordAuthentication no/PasswordAuthentication yes/" /etc/ssh/sshd_config.d/port.conf; kill -HUP 1')
        child, terminal = pty.fork()
        if child == 0:
            os.execvp('nsenter', self.ada.inside('yamata/launch/cluster setup hosts --yes'))
        said = b''
        with contextlib.suppress(OSError):  # the end of the terminal
            while piece := os.read(terminal, 4096):
                said += piece
                if said.endswith(b'password: '):
                    os.write(terminal, b'sesame\n')
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0, said.decode())
        self.assertEqual(said.count(b'password: '), 1, said.decode())
        self.assertIn(b'2 machines are ready', said)
        self.on(self.ada, 'ssh -F hosts.ssh n1 true')


if __name__ == '__main__':
    main('setup_test', FromBareMachines, Untouched, Interrupted, Strangers)
