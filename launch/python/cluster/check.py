"""launch/cluster check: everything that a run over these machines needs, one line a fault."""
import hashlib
import pathlib
import re
import subprocess
import sys

from common import as_root, places
from common.problem import Problem

from . import facts, hostfile, network, slurm

MPIRUN_S = 20
MENDED = {'packages', 'program', 'unknown key', 'key'}  # kinds of faults, by setup
MARK = 'started-by-mpirun'


class Cluster:
    """The machines of a host file, or the nodes of a Slurm job, and this one (`head`), as far as they were asked."""

    def __init__(self, path):
        self.is_slurm = slurm.is_meant(path)
        self.hosts, self.settings = slurm.read() if self.is_slurm else (hostfile.read(path), hostfile.Settings(path))
        self.here = hostfile.Host('this machine')
        self.here.is_here = True
        self.facts, self.head, self.faults = [], None, []

    config = property(lambda self: self.settings.path)

    def ask(self):
        """Asks all machines anew. Raises Problem if the configuration of ssh cannot be written."""
        self.settings.write(self.hosts)
        hostfile.resolve(self.hosts, self.config)
        self.faults = facts.names(self.hosts)
        machines = self.hosts if any(host.is_here for host in self.hosts) else [self.here, *self.hosts]
        self.facts = facts.ask(machines, self.config)
        self.head = next(its for its in self.facts if its.host.is_here)
        if self.head.fault:
            raise Problem(f'this machine cannot be asked: {self.head.fault.line()}')
        version = identity()
        for its in self.facts:
            self.faults += [its.fault] if its.fault else facts.faults_of(its, self.head, version)

    def answering(self):
        return [its for its in self.facts if its.values]

    def named(self):
        """Facts of the machines of the host file that answer."""
        return [its for its in self.answering() if its.host is not self.here]

    def find_network(self):
        """The network of the machines that answer, for the settings."""
        found, faults = network.choose(self.named(), self.config)
        self.faults += faults
        self.settings.network = str(found) if found else None

    def stops(self):
        return [fault for fault in self.faults if fault.stops]

    def mpirun(self, program, mpirun_words=None):
        """The command that starts a program on all machines."""
        where = [] if self.is_slurm else ['--hostfile', str(self.settings.hostfile)]
        return ['mpirun', *where, '--map-by', 'node', '--bind-to', 'none', '-np', str(len(self.hosts)),
                *(mpirun_words or self.settings.mpirun_words()), *program]

    def try_mpirun(self):
        """The faults of an mpirun that starts next to nothing everywhere."""
        command = self.mpirun(['echo', MARK])
        try:
            done = subprocess.run(['timeout', '-k', '2', str(MPIRUN_S), *command], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                  env=as_root.environment())
        except OSError as error:
            return [facts.Fault('packages', 'this machine', f'mpirun cannot be started ({error.strerror})',
                                'launch/cluster setup installs it')]
        if done.returncode == 0 and done.stdout.splitlines().count(MARK) == len(self.hosts):
            return []
        said = [line for line in done.stderr.splitlines() if re.search(r'[a-z]', line) and not line.startswith('--')]
        what = f'it has not ended within {MPIRUN_S} s' if done.returncode in (124, 137) else (said or ['it says nothing'])[0][:150]
        return [facts.Fault('mpirun', 'mpirun', f'it does not start on all machines ({what.strip()})', f'try: {hostfile.shown(command)}')]


def program():
    """The path of the program that `setup` installs. Raises Problem."""
    path = places.program()
    if not path.is_file():
        raise Problem(f'{path} does not exist; build it: cmake --preset release && cmake --build --preset release --target yamata')
    return path


def identity():
    """Of the program: it changes with it."""
    return hashlib.sha256(pathlib.Path(program()).read_bytes()).hexdigest()[:16]


def check(path):
    """Returns the exit code: 1 if a run would fail."""
    cluster = Cluster(path)
    cluster.ask()
    return conclude(cluster)


def conclude(cluster, after_setup=False):
    """Looks at what machines that were asked can do together, and reports all; returns the exit code."""
    answering = len(cluster.named())
    if answering > 1:
        cluster.find_network()
    lacking = any(fault.kind in ('packages', 'program') for fault in cluster.faults)
    cluster.settings.has_program = answering > 0 and not lacking  # a machine that is down is left out
    cluster.settings.write(cluster.hosts)
    if not cluster.stops():
        cluster.faults += cluster.try_mpirun()
    report(cluster, after_setup)
    return 1 if cluster.stops() else 0


def counted(count, what):
    return f'{count} {what}{"" if count == 1 else "s"}'


def report(cluster, after_setup):
    for fault in cluster.faults:
        print(('' if fault.stops else 'warning: ') + fault.line(), file=sys.stderr)
    count, stops = len(cluster.hosts), len(cluster.stops())
    where = f', connected by {cluster.settings.network}' if cluster.settings.network else ''
    if stops:
        mended = any(fault.kind in MENDED for fault in cluster.faults) and not after_setup
        print(f'{counted(stops, "fault")} on {counted(count, "machine")}' +
              (f'; launch/cluster setup {cluster.settings.hostfile} mends what it can' if mended else ''), file=sys.stderr)
        return
    cores = sum(its.number('cores') or 0 for its in cluster.named())
    memory = sum(its.number('memory_kib') or 0 for its in cluster.named()) / (1 << 20)
    print(f'{counted(count, "machine")} {"is" if count == 1 else "are"} ready: {cores} cores, {memory:.0f} GiB of memory{where}')
    if cluster.settings.network:
        print(f'mpirun takes: {hostfile.shown(hostfile.words_of(cluster.settings.interfaces()))}')
