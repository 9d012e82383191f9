"""Emulated machines: each is an emulated host with files, users, processes and an sshd of its own. Nothing of this machine is changed."""
import contextlib
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys
import time

from common import places

from . import hosts as emulation
from . import machine_root
from .hosts import EmulationError

PEOPLE = ['ada', 'bob', 'cleo', 'dan', 'eve', 'finn', 'gita', 'hugo']
FIRST_UID = 4001
START_S = 20
NEEDED = 'mount', 'unshare', 'nsenter', 'chroot', 'ssh-keygen'

# Runs as the first process of a machine: what its kernel would mount, then sshd.
BOOT = '''set -e
root=$1 name=$2
mount --make-rprivate /
mount -t overlay overlay -o "$3" "$root"
hostname "$name"
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sysfs "$root/sys"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
for it in null zero full random urandom tty; do touch "$root/dev/$it"; mount --bind "/dev/$it" "$root/dev/$it"; done
mkdir "$root/dev/pts" "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666,mode=620,gid=5 devpts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
mount -t tmpfs -o mode=755 tmpfs "$root/run"
mkdir -p "$root/run/sshd"
shift 3
while [ $# -gt 0 ]; do
  mkdir -p "$root$2"; mount --bind "$1" "$root$2"; mount -o remount,bind,ro "$root$2"; shift 2
done
exec chroot "$root" /usr/sbin/sshd -D -e
'''


def why_not():
    """The reason why machines cannot be emulated here, or None."""
    missing = [command for command in NEEDED if not shutil.which(command)]
    if missing:
        return f"the command '{missing[0]}' is missing; install the packages util-linux and openssh-client"
    return emulation.why_not() or machine_root.why_not()


class Person:
    def __init__(self, number):
        self.name, self.uid = PEOPLE[number % len(PEOPLE)], FIRST_UID + number
        self.home = f'/home/{self.name}' if number % 2 == 0 else f'/srv/people/{self.name}'


class Machine:
    """`root`: its files, as long as it runs, only for its own processes; `changes`: what differs from a bare machine's, at any time."""

    def __init__(self, host, number, folder, layers):
        self.host, self.name, self.address = host, host.name, f'10.77.0.{10 + number}'
        self.person, self.port = Person(number), 22 if number == 0 else 2200 + number
        self.is_first = number == 0
        self.folder, self.layers = folder / host.name, layers
        self.changes, self.root, self.process = self.folder / 'changes', self.folder / 'root', None

    def create(self, names):
        for path in self.changes, self.root, self.folder / 'work':
            path.mkdir(parents=True)
        etc = self.changes / 'etc'
        for name in 'passwd', 'group', 'shadow':
            its = self.lower(f'etc/{name}').read_text()
            line = {'passwd': f'{self.person.name}:x:{self.person.uid}:{self.person.uid}::{self.person.home}:/bin/bash\n',
                    'group': f'{self.person.name}:x:{self.person.uid}:\n', 'shadow': f'{self.person.name}:*:19000::::::\n'}[name]
            self.write(f'etc/{name}', its + line, 0o640 if name == 'shadow' else 0o644)
        self.write('etc/hostname', f'{self.name}\n')
        self.write('etc/hosts', f'127.0.0.1 localhost\n127.0.1.1 {self.name}\n' + ''.join(f'{its} {name}\n' for name, its in names.items()))
        self.write('etc/sudoers.d/people', f'{self.person.name} ALL=(ALL) NOPASSWD: ALL\n', 0o440)
        self.write('etc/ssh/sshd_config.d/port.conf', f'Port {self.port}\nPasswordAuthentication no\nUsePAM no\nUseDNS no\n')
        machine_root.run('ssh-keygen', '-q', '-t', 'ed25519', '-N', '', '-C', self.name, '-f', etc / 'ssh' / 'ssh_host_ed25519_key')
        self.write_home('.ssh', None, 0o700)

    def lower(self, path):
        """The file of a bare machine."""
        layer = self.layers.person / path
        return layer if self.is_first and layer.exists() else self.layers.bare / path

    def write(self, path, text, mode=0o644):
        """A file of root's. Not while the machine runs."""
        its = self.changes / path
        its.parent.mkdir(parents=True, exist_ok=True)
        its.write_text(text)
        its.chmod(mode)

    def write_home(self, path, text, mode=0o600):
        """A file of the person's, or with `text` None a folder."""
        its = self.changes / self.person.home[1:] / path
        its.parent.mkdir(parents=True, exist_ok=True)
        its.mkdir() if text is None else its.write_text(text)
        its.chmod(mode)
        top = self.changes / self.person.home[1:]
        for owned in [top, *top.rglob('*')]:
            os.chown(owned, self.person.uid, self.person.uid, follow_symlinks=False)

    def boot(self, binds):
        """Starts it. `binds`: (folder of this machine, path there) that it can read."""
        lower = [self.layers.person, self.layers.bare] if self.is_first else [self.layers.bare]
        options = f'lowerdir={":".join(map(str, lower))},upperdir={self.changes},workdir={self.folder / "work"}'
        words = [str(word) for bind in binds for word in bind]
        self.log = open(self.folder / 'log', 'w')
        entered = f'for g in {shlex.join(str(group / "cgroup.procs") for group in self.host.groups)}; do echo $$ > "$g"; done; exec "$@"'
        self.process = subprocess.Popen(
            ['sh', '-c', entered, 'sh', 'unshare', '--mount', '--uts', '--ipc', '--pid', '--fork', '--kill-child',
             *emulation.inside(self.host.namespace), 'sh', '-c', BOOT, 'sh', str(self.root), self.name, options, *words],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, start_new_session=True)

    def wait_until_it_answers(self):
        """Raises EmulationError."""
        end = time.monotonic() + START_S
        while 'Server listening' not in (self.folder / 'log').read_text():
            if self.process.poll() is not None or time.monotonic() > end:
                raise EmulationError(f'the emulated machine {self.name} did not start: {(self.folder / "log").read_text().strip()[-300:]}')
            time.sleep(0.02)

    def first_process(self):
        """Its id on this machine."""
        children = pathlib.Path(f'/proc/{self.process.pid}/task/{self.process.pid}/children').read_text().split()
        return children[0]

    def inside(self, command, as_root=False):
        """The words that run a command line there, as the person."""
        enter = ['nsenter', '-t', self.first_process(), '-m', '-u', '-i', '-n', '-p', '-r', '-w']
        if as_root:
            return [*enter, 'env', '-i', 'HOME=/root', 'PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', 'sh', '-c',
                    command]
        who = self.person
        variables = [f'HOME={who.home}', f'USER={who.name}', 'SHELL=/bin/bash', f'TERM={os.environ.get("TERM", "dumb")}', 'LANG=C.UTF-8',
                     'PATH=/usr/local/bin:/usr/bin:/bin', 'PYTHONDONTWRITEBYTECODE=1']
        return [*enter, 'setpriv', '--reuid', str(who.uid), '--regid', str(who.uid), '--clear-groups', 'env', '-i', *variables,
                'bash', '-c', f'cd; {command}']

    def run(self, command, as_root=False, **more):
        return subprocess.run(self.inside(command, as_root), **{'stdin': subprocess.DEVNULL, 'capture_output': True, 'text': True, **more})

    def power_off(self):
        if self.process:
            self.host.kill()
            self.process.kill()
            self.process.wait()
            self.log.close()
            self.process = None


def run_as_person(cluster, program):
    """Runs a command, or without one a shell, on the first machine; returns its exit code. Ctrl-C is the command's."""
    def say(text):
        print(f'emulate: {text}', file=sys.stderr, flush=True)
    with Machines(cluster, say=say) as machines:
        first = machines.first
        if not program:
            say(f'you are {first.person.name} on {first.name}; the machines are in the file hosts; try: yamata/launch/cluster setup hosts')
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            return subprocess.call(first.inside(shlex.join(program) or ('exec bash -i' if sys.stdin.isatty() else 'exec bash')),
                                   preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        finally:
            signal.signal(signal.SIGINT, before)


class Machines:
    """Use it in a `with`. The person of the first machine can enter all of them by ssh with `authorized`, else only by what the tests
    add. Below CLONE on the first one is the project, with its build."""

    CLONE = 'yamata'

    def __init__(self, cluster, authorized=True, say=lambda text: None):
        if reason := why_not():
            raise EmulationError(reason)
        self.cluster, self.authorized = cluster, authorized
        layers = machine_root.layers(say)
        self.all = [Machine(host, number, cluster.folder, layers) for number, host in enumerate(cluster.hosts)]
        self.first, self.packages = self.all[0], layers.packages

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            stack.callback(self.__exit__)
            for machine in self.all:
                machine.create({})
            self.introduce()
            for machine in self.all:
                self.boot(machine)
            for machine in self.all:
                machine.wait_until_it_answers()
            stack.pop_all()
        return self

    def boot(self, machine):
        home = machine.person.home
        clone = [(places.ROOT, f'{home}/{self.CLONE}'), (self.packages, '/var/packages')]
        if places.build_folder() != places.ROOT / 'build':
            clone.append((places.build_folder(), f'{home}/{self.CLONE}/build'))
        machine.boot(clone if machine.is_first else [])

    def introduce(self):
        """The host file of the person on the first machine, and their key."""
        first = self.first
        first.write_home('hosts', ''.join(f'{its.name} slots=1  # ssh -p {its.port} {its.person.name}@{its.address}\n' for its in self.all))
        key = first.folder / 'key'
        machine_root.run('ssh-keygen', '-q', '-t', 'ed25519', '-N', '', '-C', first.person.name, '-f', key)
        first.write_home('.ssh/id_ed25519', key.read_text())
        first.write_home('.ssh/id_ed25519.pub', (public := key.with_suffix('.pub').read_text()))
        for machine in self.all if self.authorized else []:
            machine.write_home('.ssh/authorized_keys', public)

    def __exit__(self, *_):
        for machine in self.all:
            machine.power_off()
