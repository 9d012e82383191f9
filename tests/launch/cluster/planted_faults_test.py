#!/usr/bin/env python3
"""launch/cluster check on emulated machines with real sshd: it finds each planted fault, names the machine and the remedy, and finds
nothing on machines that are sound."""
import contextlib
import subprocess

from machines_case import OnReadyMachines, main

BASHRC = 'cat .bashrc 2>/dev/null > .kept; { echo "%s"; cat .kept; } > .bashrc'
# The key of another machine in place of the second one's.
OTHER_KEY = (r"cp .ssh/known_hosts kept; grep -F '[10.77.0.12]' kept | sed 's/10.77.0.12/10.77.0.11/; s/2202/2201/' > mixed; "
             r"grep -vF '[10.77.0.11]' kept >> mixed; mv mixed .ssh/known_hosts")
FIREWALL = 'table inet planted { chain in { type filter hook input priority 0; tcp dport 10000-11099 drop; }; }'
SMALL_HOME = ('cp -a {0} /tmp/kept && mount -t tmpfs -o mode=755,size=16m tmpfs {0} && cp -a /tmp/kept/. {0}/ && chown {1}:{1} {0} && '
              'rm -r /tmp/kept')


class PlantedFaults(OnReadyMachines):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.bob = cls.machines.all[1]

    def check(self, pattern, code=1, hosts='hosts'):
        said = self.run_here(f'check {hosts}', code)
        lines = [line for line in said.splitlines() if ': ' in line and '; ' in line and not line[0].isdigit()]
        self.assertRegex(said, r'(?m)^(warning: )?' + pattern + r'.*; \S')
        self.assertEqual(len(lines), 1, said)

    @contextlib.contextmanager
    def planted(self, by_root=None, undo_by_root=None, by_bob=None, undo_by_bob=None):
        if by_root:
            self.as_root(self.bob, by_root)
        if by_bob:
            self.on(self.bob, by_bob)
        try:
            yield
        finally:
            if undo_by_root:
                self.as_root(self.bob, undo_by_root)
            if undo_by_bob:
                self.on(self.bob, undo_by_bob)

    @contextlib.contextmanager
    def at_ada(self, command, undo, as_root=False):
        run = self.as_root if as_root else self.on
        run(self.ada, command)
        try:
            yield
        finally:
            run(self.ada, undo)

    @contextlib.contextmanager
    def first_line_of_bashrc(self, line):
        with self.planted(by_bob=BASHRC % line, undo_by_bob='mv .kept .bashrc'):
            yield

    def test_a_sound_cluster_has_none(self):
        self.assertRegex(self.run_here('check hosts'), r'^3 machines are ready: .* connected by 10\.77\.0\.0/24\n')

    def test_the_network_that_connects_all_is_taken(self):
        """Not one of two machines, nor one in which all have the same address, as that of containers."""
        more = [['10.0.0.1/24', '172.17.0.1/16'], ['10.0.0.2/24', '172.17.0.1/16'], ['172.17.0.1/16']]
        try:
            for machine, addresses in zip(self.machines.all, more):
                self.as_root(machine, '; '.join(f'ip addr add {address} dev eth0' for address in addresses))
            self.assertIn('connected by 10.77.0.0/24', self.run_here('check hosts'))
        finally:
            for machine, addresses in zip(self.machines.all, more):
                self.as_root(machine, '; '.join(f'ip addr del {address} dev eth0' for address in addresses))

    def test_setup_takes_no_changed_host_key(self):
        with self.at_ada(OTHER_KEY, 'mv kept .ssh/known_hosts'):
            before = self.on(self.ada, 'cat .ssh/known_hosts')
            self.assertIn('n1: its host key is not the one known here', self.run_here('setup hosts --yes', 1))
            self.assertIn(before, self.on(self.ada, 'cat .ssh/known_hosts'))

    def test_a_name_that_nobody_knows(self):
        with self.at_ada('{ cat hosts; echo nowhere.invalid; } > others', 'rm others*'):
            self.check('nowhere.invalid: its name nowhere.invalid is not known', hosts='others')

    def test_a_machine_that_is_down(self):
        self.link(self.bob, 'down')
        try:
            self.check('n1: 10.77.0.11 (does not answer|cannot be reached)')
        finally:
            self.link(self.bob, 'up')

    def test_a_wrong_port(self):
        with self.at_ada('sed s/2201/2299/ hosts > others', 'rm others*'):
            self.check('n1: nothing answers on port 2299 of 10.77.0.11', hosts='others')

    def test_an_unknown_host_key(self):
        with self.at_ada("cp .ssh/known_hosts kept; ssh-keygen -q -R '[10.77.0.11]:2201'", 'mv kept .ssh/known_hosts'):
            self.check('n1: its host key is not known here')

    def test_a_changed_host_key(self):
        with self.at_ada(OTHER_KEY, 'mv kept .ssh/known_hosts'):
            self.check('n1: its host key is not the one known here: it was installed anew, or another machine answers')

    def test_a_key_that_is_not_authorized(self):
        with self.planted(by_bob='mv .ssh/authorized_keys kept', undo_by_bob='mv kept .ssh/authorized_keys'):
            self.check('n1: ssh asks bob for a password there')

    def test_exit_in_bashrc(self):
        with self.first_line_of_bashrc('exit 0'):
            self.check('n1: its shell ends, or waits, before a command')

    def test_a_question_in_bashrc(self):
        with self.first_line_of_bashrc('read answer < /dev/zero'):
            self.check('n1: (its shell ends, or waits|it has not answered)')

    def test_words_in_bashrc_are_a_warning(self):
        with self.first_line_of_bashrc('echo Welcome'):
            self.check('n1: its shell says something', code=0)

    def test_no_open_mpi(self):
        with self.planted('mv /usr/bin/orted /usr/bin/orted.kept', 'mv /usr/bin/orted.kept /usr/bin/orted'):
            self.check('n1: Open MPI is not installed')

    def test_another_open_mpi(self):
        with self.planted('printf "#!/bin/sh\necho \'mpirun (Open MPI) 5.0.3\'\n" > /usr/local/bin/mpirun; chmod +x /usr/local/bin/mpirun',
                          'rm /usr/local/bin/mpirun'):
            self.check('n1: it has Open MPI 5.0.3, this machine 4.1.4')

    def test_another_version_of_a_package(self):
        status = '/var/lib/dpkg/status'
        with self.planted(f"cp {status} /tmp/kept; sed -i '/^Package: libpmix2$/,/^$/s/^Version: .*/Version: 4.9/' {status}",
                          f'mv /tmp/kept {status}'):
            self.check('n1: its package libpmix2 is 4.9, here 4')

    def test_a_missing_library(self):
        library = '/usr/lib/x86_64-linux-gnu/libfmt.so.9'
        with self.planted(f'mv {library} /tmp/kept', f'mv /tmp/kept {library}'):
            self.check('n1: the program lacks libfmt.so.9')

    def test_no_program(self):
        with self.planted(by_bob='mv .local/lib/yamata kept', undo_by_bob='mv kept .local/lib/yamata'):
            self.check('n1: the program is not installed')

    def test_another_program(self):
        mark = '.local/lib/yamata/x86_64/yamata.from'
        with self.planted(by_bob=f'cp {mark} kept; echo other > {mark}', undo_by_bob=f'mv kept {mark}'):
            self.check('n1: it has another version of the program')

    def test_a_name_that_means_this_machine(self):
        with self.at_ada('cp /etc/hosts /etc/kept; echo 127.0.1.1 cellar >> /etc/hosts', 'cat /etc/kept > /etc/hosts', as_root=True):
            with self.at_ada("sed 's/^n1 .*/cellar # ssh -p 2201 bob@cellar/' hosts > others", 'rm others*'):
                said = self.run_here('check others', 1)
                self.assertRegex(said, r'(?m)^cellar: its name cellar means this machine \(127.0.1.1\) here; correct /etc/hosts')

    def test_names_that_mpirun_confuses(self):
        with self.at_ada("sed 's/^n1 /barn.lab1 /; s/^n2 /barn.lab2 /' hosts > others", 'rm others*'):
            self.check('barn.lab2: mpirun takes it for barn.lab1', hosts='others')

    def test_a_firewall(self):
        namespace = ['ip', 'netns', 'exec', self.bob.host.namespace, 'nft']
        subprocess.run([*namespace, '-f', '-'], input=FIREWALL, text=True, check=True)
        try:
            self.check(r'n1: n0, n2 cannot reach it on port 100[0-9]+, 110[0-9]+, 110[0-9]+ \(no answer\)')
        finally:
            subprocess.run([*namespace, 'flush', 'ruleset'], check=True)

    def test_a_full_disk(self):
        home = self.bob.person.home
        with self.planted(SMALL_HOME.format(home, 'bob'), f'umount -l {home}'):
            self.check(f'n1: the disk of {home} has only [0-9]+ MiB left')

    def test_a_read_only_home(self):
        home = self.bob.person.home
        with self.planted(f'mount --bind {home} {home} && mount -o remount,bind,ro {home}', f'umount -l {home}'):
            self.check(f'n1: {home} cannot be written')

    def test_a_temporary_folder_that_cannot_be_written(self):
        with self.planted('chmod 755 /tmp', 'chmod 1777 /tmp'):
            self.check('n1: the temporary folder /tmp cannot be written')

    def test_little_shared_memory(self):
        with self.planted('mount -o remount,size=1m /dev/shm', 'mount -o remount,size=1g /dev/shm'):
            self.check('n1: /dev/shm has only 1 MiB left')

    def test_too_few_open_files(self):
        with self.first_line_of_bashrc('ulimit -n 64'):
            self.check('n1: only 64 open files are allowed')

    def test_no_network_in_common(self):
        with self.planted('ip addr flush dev eth0; ip addr add 10.77.0.11/32 dev eth0; ip route add 10.77.0.10 dev eth0; '
                          'ip route add 10.77.0.12 dev eth0', 'ip addr flush dev eth0; ip addr add 10.77.0.11/24 dev eth0'):
            self.check('n0, n1, n2: no IPv4 network has an address of each of them')

    def test_a_daemon_that_fails(self):
        with self.planted('printf "#!/bin/sh\nexit 1\n" > /usr/local/bin/orted; chmod +x /usr/local/bin/orted', 'rm /usr/local/bin/orted'):
            self.check('mpirun: it does not start on all machines')


if __name__ == '__main__':
    main('planted_faults_test', PlantedFaults)
