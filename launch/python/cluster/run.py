"""launch/cluster run: a text, or another command of yamata, on the machines of a host file or of a Slurm job."""
import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

from common import as_root, interrupt, places
from common.problem import Problem
from measuring.running import members
from serving import engine

from . import check, hostfile, remote, slurm

LOST = 3  # exit code
LIMITS = ['--timeout', str(engine.TIMEOUT_S), '--serving-timeout', str(engine.SERVING_S)]  # of a silent rank, as in launch/serve


def run(path, words):
    """Returns the exit code of the program, or becomes launch/batch. Raises Problem."""
    cluster = check.Cluster(path)
    if not cluster.settings.is_there or not cluster.settings.has_program:
        raise Problem(f'these machines are not set up; run: launch/cluster setup {path}')
    if not cluster.is_slurm:
        cluster.settings.require_hosts(cluster.hosts)
    if not words:
        raise Problem('name a model and a prompt: launch/cluster run HOSTS -m MODEL -p TEXT')
    if words[0].startswith('-') and words[0] != '--':
        batch = str(places.LAUNCH / 'batch')
        os.execv(sys.executable, [sys.executable, batch, '--hostfile', str(path), *words])
    words = words[words[0] == '--':]
    if words[:1] == ['fetch']:
        return on_each(cluster, words)
    command = command_of(cluster, [*words, *limits_of(words)])
    print(hostfile.shown(command), file=sys.stderr, flush=True)
    try:
        job = Job(command, path, '-' in words or words[:1] == ['engine'])
    except OSError as error:
        raise Problem(f'{command[0]} cannot be started ({error.strerror}); launch/cluster check {path} says more') from None
    return job.watch()


def on_each(cluster, words):
    """A command that is about one machine, on each of them, without mpirun. Returns the exit code: 1 if it failed on one."""
    hostfile.resolve(cluster.hosts, cluster.config)
    script = hostfile.shown([*program_of(cluster), *words]) + '\n'
    answers = remote.each(cluster.hosts, lambda host: remote.run(host, cluster.config, script, None, options=remote.NOTICES_LOSS))
    for host, answer in zip(cluster.hosts, answers):
        for line in answer.out.splitlines():
            print(f'{host.name}: {line}')
        for line in answer.err.splitlines():
            print(f'{host.name}: {line}', file=sys.stderr)
    return int(any(answer.code for answer in answers))


def program_of(cluster):
    return [str(check.program().resolve())] if cluster.is_slurm else hostfile.program_words()


def limits_of(words):
    """For commands that have these flags, unless they are there."""
    if any(word.partition('=')[0] in ('--timeout', '--serving-timeout') for word in words):
        return []
    told = subprocess.run([check.program(), *words[:1], '--help'], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    return LIMITS if all(flag in told.stdout + told.stderr for flag in LIMITS[::2]) else []


def command_of(cluster, words):
    settings = cluster.settings
    config, network = (None, slurm.parameters()) if cluster.is_slurm else (settings.path.resolve(), settings.parameters())
    return cluster.mpirun([*program_of(cluster), *words], mpirun_words=engine.launcher_words((), config, None, network))


class Job:
    """mpirun, of whose words only those are passed on that say what the program does not."""

    def __init__(self, command, hosts, reads_input):
        # In a session of its own only this process hears Ctrl-C, and mpirun hears it once; but it could not read a terminal.
        self.shares_terminal = reads_input and sys.stdin.isatty()
        self.hosts, self.noise, self.box, self.is_lost = hosts, engine.Noise(), [], False
        with interrupt.postponed():
            self.process = subprocess.Popen(command, stdin=None if reads_input else subprocess.DEVNULL, stderr=subprocess.PIPE,
                                            env=as_root.environment(), start_new_session=not self.shares_terminal)
        for number in interrupt.SIGNALS:
            if signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, self.pass_on)

    def pass_on(self, number, _):
        if not (number == signal.SIGINT and self.shares_terminal):
            self.send(self.process.pid, number)

    @staticmethod
    def send(pid, number):
        with contextlib.suppress(OSError):
            os.kill(pid, number)

    def watch(self):
        """Returns the exit code."""
        threading.Thread(target=self.end_after_loss, daemon=True).start()
        for data in self.process.stderr:
            self.take(data.decode(errors='replace').rstrip('\n'))
        self.end_box()
        code = self.process.wait()
        if code and not self.noise.told:
            self.say(f'cluster: mpirun has ended with exit code {code}; launch/cluster check {self.hosts} says more')
        return code if code >= 0 else LOST if self.is_lost else 128 - code

    @staticmethod
    def say(line):
        print(line, file=sys.stderr, flush=True)

    def take(self, line):
        is_noise = self.noise.has(line)
        self.is_lost |= bool(engine.CAUSE.match(line))
        if line.startswith('-----') or self.noise.boxed:
            self.box.append(line)
            if not self.noise.boxed:
                self.end_box()
        elif not is_noise:
            self.say(line)

    def end_box(self):
        """A box of mpirun's words is there as a whole."""
        text, self.box = '\n'.join(self.box), []
        if self.noise.told or not text:
            return
        if not engine.DAEMON_LOST.search(text):
            return self.say(text)
        self.noise.told = self.is_lost = True
        self.say(f'cluster: mpirun has lost a machine; launch/cluster check {self.hosts} says which')

    def end_after_loss(self):
        """mpirun may wait for minutes for a machine that is lost, after the ranks here have ended."""
        were_here, since = False, None
        while self.process.poll() is None:
            time.sleep(engine.TICK_S)
            its = [] if self.shares_terminal else members(self.process.pid)
            here = any(name_of(pid).startswith('yamata') for pid in its)
            were_here |= here
            since = (since or time.monotonic()) if were_here and not here and self.is_lost else None
            if since and time.monotonic() - since > engine.KILL_S:
                for pid in its:
                    self.send(pid, signal.SIGKILL)


def name_of(pid):
    try:
        return pathlib.Path(f'/proc/{pid}/comm').read_text()
    except OSError:
        return ''
