"""Faults of emulated hosts under launch/serve."""
import os
import signal
import time

from . import hosts as emulation
from .served import processes

SIGNALS = {'kill': signal.SIGKILL, 'stop': signal.SIGSTOP}
PROGRAMS = {'rank': 'yamata', 'guard': 'yamata-guard', 'daemon': 'orted'}
OF_A_HOST = [f'{how} {what}' for how in SIGNALS for what in PROGRAMS] + ['cut link', 'short outage', 'flapping link', 'lose power']
KINDS = [*OF_A_HOST, 'kill mpirun', 'stop mpirun', 'cut all others']
FLAPS = 4


def kill(process, number):
    try:
        os.kill(process, number)
    except ProcessLookupError:
        pass


def set_link(host, state):
    emulation.run(['ip', '-n', host.namespace, 'link', 'set', 'eth0', state])


def repair(cluster):
    """All machines answer again."""
    for host in cluster.hosts:
        set_link(host, 'up')
        for process in host.processes():
            kill(process, signal.SIGCONT)


class Fault:
    """`host`: its number; `outage_s`: how long a short outage lasts."""

    def __init__(self, kind, host, outage_s=1.0):
        self.kind, self.host, self.outage_s = kind, host, outage_s

    def describe(self):
        where = f' n{self.host}' if self.kind in OF_A_HOST else f' than n{self.host}' if self.kind == 'cut all others' else ''
        return self.kind + where + (f' for {self.outage_s} s' if self.kind == 'short outage' else '')

    def strike(self, server):
        hosts = server.cluster.hosts
        host = hosts[self.host]
        how, _, what = self.kind.partition(' ')
        if self.kind == 'cut all others':
            for other in hosts:
                if other is not host:
                    set_link(other, 'down')
        elif self.kind in ('cut link', 'lose power'):
            set_link(host, 'down')
            if self.kind == 'lose power':
                host.kill()
        elif self.kind in ('short outage', 'flapping link'):
            for _ in range(FLAPS if self.kind == 'flapping link' else 1):
                set_link(host, 'down')
                time.sleep(self.outage_s)
                set_link(host, 'up')
                time.sleep(0.2)
        else:
            for process in server.mpirun() if what == 'mpirun' else processes(host, PROGRAMS[what]):
                kill(process, SIGNALS[how])
