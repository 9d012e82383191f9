"""Emulated clusters: each host is a network namespace with a CPU quota, a link rate and a delay. A real mpirun connects them over TCP."""
import hashlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from common import as_root, places

SWITCH = places.program('emulated-switch')
GROUPS = pathlib.Path('/sys/fs/cgroup')
PREFIX = 'yem'
MOST_HOSTS = 200  # number of addresses in a network
LEAST_QUOTA_US = 1000  # the kernel's minimum


class EmulationError(Exception):
    """The reason why a cluster cannot be emulated here, in one line with the remedy."""


def why_not():
    """The reason why no cluster can be emulated here, or None."""
    if os.geteuid() != 0:
        return 'needs root, for network namespaces and CPU quotas; run it with sudo'
    if not shutil.which('ip'):
        return "the command 'ip' is missing; install it with: apt-get install iproute2"
    if not os.access('/dev/net/tun', os.R_OK | os.W_OK):
        return 'there is no /dev/net/tun here; a container needs --device /dev/net/tun and --cap-add NET_ADMIN,SYS_ADMIN'
    probe = f'{PREFIX}{os.getpid()}probe'
    try:
        if run(['ip', 'netns', 'add', probe], check=False).returncode:
            return 'network namespaces are not allowed here; a container needs --cap-add NET_ADMIN,SYS_ADMIN'
    finally:
        run(['ip', 'netns', 'del', probe], check=False)
    if not cpu_group_roots():
        return 'no writable cgroup with the cpu controller here, so no CPU quota can be set'
    if not SWITCH.exists():
        return f'{SWITCH} is missing; build it with: cmake --preset release && cmake --build --preset release --target emulated-switch'
    return None


def run(command, check=True):
    done = subprocess.run(command, capture_output=True, text=True)
    if check and done.returncode:
        raise EmulationError(f"'{' '.join(command)}' failed: {done.stderr.strip()}")
    return done


def cpu_group_roots():
    """The folders of the control groups for quotas and cores: one (cgroup v2) or two (v1); empty: there are none."""
    if (GROUPS / 'cpu' / 'cpu.cfs_quota_us').exists() and os.access(GROUPS / 'cpu', os.W_OK):
        return [GROUPS / 'cpu', GROUPS / 'cpuset']
    try:
        (GROUPS / 'cgroup.subtree_control').write_text('+cpu +cpuset')
        return [GROUPS]
    except OSError:
        return []


def quota(percent):
    """(quota, period) in microseconds; the period is 5 ms unless the quota would be below the kernel's minimum."""
    period = max(5000, round(LEAST_QUOTA_US * 100 / percent))
    return round(period * percent / 100), period


class Host:
    """An emulated machine: a network namespace, a name, a share of a core."""

    def __init__(self, prefix, name):
        self.name = name
        self.namespace = f'{prefix}{name}'
        self.groups = [root / self.namespace for root in cpu_group_roots()]

    def create(self, device, address, cpu, cores):
        run(['ip', 'netns', 'add', self.namespace])
        run(['ip', 'link', 'set', device, 'netns', self.namespace, 'name', 'eth0'])
        run(['ip', '-n', self.namespace, 'link', 'set', 'lo', 'up'])
        run(['ip', '-n', self.namespace, 'addr', 'add', f'{address}/24', 'dev', 'eth0'])
        run(['ip', '-n', self.namespace, 'link', 'set', 'eth0', 'txqueuelen', '10000', 'up'])
        run(['ip', 'netns', 'exec', self.namespace, 'sh', '-c',
             'cd /proc/sys/net/ipv4; echo cubic > tcp_congestion_control || echo reno > tcp_congestion_control'])
        for group in self.groups:
            group.mkdir(exist_ok=True)
        if cpu:
            self.set_cpu(cpu)
        (self.groups[-1] / 'cpuset.cpus').write_text(cores)
        memory = self.groups[-1] / 'cpuset.mems'
        memory.write_text((self.groups[-1].parent / ('cpuset.mems' if len(self.groups) > 1 else 'cpuset.mems.effective')).read_text())

    def set_cpu(self, percent):
        """Changes this host's share of a core immediately. A whole core has no quota."""
        share, period = quota(percent) if percent < 100 else (-1, 100000)
        if len(self.groups) > 1:
            (self.groups[0] / 'cpu.cfs_quota_us').write_text('-1')
            (self.groups[0] / 'cpu.cfs_period_us').write_text(str(period))
            (self.groups[0] / 'cpu.cfs_quota_us').write_text(str(share))
        else:
            (self.groups[0] / 'cpu.max').write_text(f'{share if share > 0 else "max"} {period}')

    def processes(self):
        """The ids of the processes on this host."""
        try:
            grouped = (self.groups[0] / 'cgroup.procs').read_text()
        except (OSError, IndexError):  # the desk has no control group
            grouped = ''
        return [int(process) for process in {*grouped.split(), *run(['ip', 'netns', 'pids', self.namespace], check=False).stdout.split()}]

    def environment_file(self):
        """Lines NAME=VALUE: the environment of processes on this host."""
        return folder_of(self.namespace.removesuffix(self.name)) / f'environment-{self.name}'

    def enter(self, command):
        """Replaces this process by `command` (a shell line) on this host; does not return."""
        for line in self.environment_file().read_text().splitlines():
            name, value = line.split('=', 1)
            os.environ[name] = value
        if not self.groups:
            sys.exit('emulate: the cgroups with the CPU quotas are not accessible')
        for group in self.groups:
            (group / 'cgroup.procs').write_text(str(os.getpid()))
        os.execvp('unshare', ['unshare', '--uts', *inside(self.namespace), 'sh', '-c', f'hostname {self.name}; {command}'])

    def kill(self):
        """Kills everything that runs on this host, without waiting for it."""
        for process in self.processes():
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def destroy(self):
        for _ in range(50):
            self.kill()
            if not self.processes():
                break
            time.sleep(0.02)
        for group in self.groups:
            try:
                group.rmdir()
            except OSError:  # missing, or a process in it has not ended: the next cluster's clean() tries again
                pass
        run(['ip', 'netns', 'del', self.namespace], check=False)


def cache_folder(*limits):
    """The cache folder for hosts with these limits, one of each per host: n0 of a different cluster counts as another machine."""
    cache = os.environ.get('XDG_CACHE_HOME') or pathlib.Path.home() / '.cache'
    kind = repr(limits)
    return pathlib.Path(cache) / 'yamata-emulated' / hashlib.sha256(kind.encode()).hexdigest()[:12]


class Cluster:
    """Hosts n0, n1, ... on one switch, and the desk: a namespace outside them, in which mpirun starts the ranks. Use it in a `with`."""

    def __init__(self, hosts, cpu=(), rate=(), delay=(), slow=(), jitter=(), loss=(), environments=(), cache=None):
        """`cpu`: percent of one core per host; `rate`: Mbit/s; `delay`: milliseconds one way; `slow`: factors by which computing is slowed
        down; `jitter`: milliseconds of random additional delay, at most; `loss`: percent of frames; `environments`: variables of processes.
        Empty: no limit; one value: for all hosts. `cache`: the folder in which they keep what they measure, if not one of the user's for
        such clusters."""
        reason = why_not()
        if reason:
            raise EmulationError(reason)
        self.count = hosts
        self.cpu, self.rate, self.delay, self.slow = (spread(values, hosts) for values in (cpu, rate, delay, slow))
        self.jitter, self.loss, self.environments = (spread(values, hosts) for values in (jitter, loss, environments))
        self.cache = cache or cache_folder(self.cpu, self.rate, self.delay, self.slow, self.jitter, self.loss, self.environments)
        self.prefix = f'{PREFIX}{os.getpid()}'
        self.hosts = [Host(self.prefix, f'n{i}') for i in range(hosts)]
        self.desk = f'{self.prefix}desk'  # the namespace of mpirun: no quota, no limit
        self.folder = folder_of(self.prefix)  # for temporary files of jobs
        self.switch = self.keeper = None

    def __enter__(self):
        clean()
        try:
            self.folder.mkdir(mode=0o700)
            self.keeper = subprocess.Popen([sys.executable, places.LAUNCH / 'emulate', '--keep', self.prefix], stdin=subprocess.PIPE,
                                           stdout=subprocess.DEVNULL, start_new_session=True)
            self.switch = subprocess.Popen([str(SWITCH), self.prefix, str(self.count + 1)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                           text=True, start_new_session=True)
            if self.switch.stdout.readline() != 'ready\n':
                raise EmulationError('the switch of the emulated network did not start')
            cores = sorted(os.sched_getaffinity(0))
            for i, host in enumerate(self.hosts):
                host.create(f'{self.prefix}{i}', f'10.77.0.{10 + i}', self.cpu[i],
                            str(cores[i % len(cores)]) if self.cpu[i] else ','.join(map(str, cores)))
                self.write_environment(i, i % len(cores))
                for what in 'rate', 'delay', 'jitter', 'loss':
                    self.tell(what, i, getattr(self, what)[i] or 0)
            run(['ip', 'netns', 'add', self.desk])
            run(['ip', 'link', 'set', f'{self.prefix}{self.count}', 'netns', self.desk, 'name', 'eth0'])
            run(['ip', '-n', self.desk, 'link', 'set', 'lo', 'up'])
            run(['ip', '-n', self.desk, 'addr', 'add', '10.77.0.1/24', 'dev', 'eth0'])
            run(['ip', '-n', self.desk, 'link', 'set', 'eth0', 'txqueuelen', '10000', 'up'])
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if self.keeper:
            self.keeper.stdin.close()
            self.keeper.wait()
        destroy(self.prefix)  # in case the keeper was killed
        if self.switch:
            self.switch.stdin.close()
            self.switch.wait()

    def write_environment(self, index, core):
        variables = {'XDG_CACHE_HOME': self.cache, **(self.environments[index] or {})}
        if self.slow[index]:
            variables |= {'YAMATA_SLOW': self.slow[index], 'YAMATA_TURNS': self.turns(core)}
        lines = [f'{name}={value}' for name, value in variables.items()]
        self.hosts[index].environment_file().write_text('\n'.join(lines))

    def turns(self, core):
        """The lock file with which slow hosts compute in turn: all of them if they rest long enough for that, else those of one core.
        Empty: no host waits for a turn."""
        if not all(self.slow) or any(cpu and cpu < 100 for cpu in self.cpu):  # a host that is stopped by its quota would keep the turn
            return ''
        file = self.folder / ('turns' if sum(1 / factor for factor in self.slow) <= 1 else f'turns-{core}')
        file.touch()
        return file

    def tell(self, what, host, value):
        """Sets the `rate` in Mbit/s (0: no limit), `delay` or `jitter` in ms, or `loss` in percent of one host's link, or stalls it for
        `stall` seconds, immediately."""
        self.switch.stdin.write(f'{what} {host} {value}\n')
        self.switch.stdin.flush()

    def command(self, program, ranks=None, mpirun=(), names=None):
        """The command that starts `program` with one rank per host, or on the hosts with these names, in this order."""
        agent = f'{sys.executable} {places.LAUNCH / "emulate"} --agent {self.prefix}'
        names = names or [host.name for host in self.hosts][:ranks]
        return [*inside(self.desk), 'mpirun', '-np', str(len(names)), '--host', ','.join(names), '--map-by', 'node', '--bind-to', 'none',
                '--mca', 'plm', 'rsh', '--mca', 'plm_rsh_agent', agent, '--mca', 'plm_rsh_no_tree_spawn', '1',
                '--mca', 'oob_tcp_if_include', '10.77.0.0/24', '--mca', 'btl', 'self,tcp', '--mca', 'btl_tcp_if_include', '10.77.0.0/24',
                '--mca', 'pml', 'ob1', '--mca', 'mpi_yield_when_idle', '1', '--mca', 'orte_tmpdir_base', str(self.folder), *mpirun,
                *program]

    def start(self, program, ranks=None, mpirun=(), names=None, env=None, **popen):
        """Starts `program` on the hosts; returns the Popen of mpirun. `env`: environment variables in addition to those of this process."""
        return subprocess.Popen(self.command(program, ranks, mpirun, names), env=as_root.environment(**(env or {})), **popen)


def inside(namespace):
    """The prefix of a command that runs it in a network namespace. Everything else, such as the cgroups, stays visible."""
    return ['nsenter', f'--net=/run/netns/{namespace}']


def spread(values, count):
    """One value per host."""
    values = list(values) or [None]
    if len(values) not in (1, count):
        raise EmulationError(f'{len(values)} values for {count} hosts; give one for all or one for each')
    return values if len(values) == count else values * count


def folder_of(prefix):
    return pathlib.Path(tempfile.gettempdir()) / prefix


def remains():
    """(id of the process that made it, name within its cluster) of all resources that clusters have on this machine; an empty name: their
    folder."""
    namespaces = run(['ip', 'netns', 'list'], check=False).stdout.splitlines() if shutil.which('ip') else []
    there = [*namespaces,
             *(group.name for root in cpu_group_roots() for group in root.glob(f'{PREFIX}*')),
             *(folder.name for folder in folder_of('').glob(f'{PREFIX}*'))]
    return {(int(match.group(1)), match.group(2)) for name in there if (match := re.match(rf'{PREFIX}(\d+)(n\d+|desk|probe|$)', name))}


def destroy(prefix):
    """Kills everything on a cluster, and removes it."""
    hosts = [Host(prefix, name) for owner, name in remains() if name and prefix == f'{PREFIX}{owner}']
    for host in hosts:
        host.kill()
    for host in hosts:
        host.destroy()
    shutil.rmtree(folder_of(prefix), ignore_errors=True)


def clean():
    """Removes clusters whose process and whose keeper were killed."""
    for owner in {owner for owner, _ in remains()}:
        if owner == os.getpid() or not runs(owner):
            destroy(f'{PREFIX}{owner}')


def state_of(process):
    """A letter as in ps: 'T' stopped, 'Z' zombie; '' if there is no such process."""
    try:
        return pathlib.Path(f'/proc/{process}/stat').read_text().rpartition(')')[2].split()[0]
    except OSError:
        return ''


def runs(process):
    return state_of(process) not in ('', 'Z', 'X')


def keep(prefix):
    """Runs in a process that outlives the one that made a cluster, and removes the cluster when that ends, which closes the input."""
    for number in signal.SIGINT, signal.SIGTERM, signal.SIGHUP:
        signal.signal(number, signal.SIG_IGN)
    sys.stdin.read()
    destroy(prefix)


def serve_agent(prefix, words):
    """The agent that mpirun calls instead of ssh: [flags] HOST COMMAND..."""
    while words and words[0].startswith('-'):
        words = words[1:]
    Host(prefix, words[0]).enter(' '.join(words[1:]))
