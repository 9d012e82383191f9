"""Support for tests of launch/cluster on emulated machines. Exit code 77 if this machine cannot emulate them."""
import sys
import unittest

import scene
from emulation import hosts as emulation
from emulation import machines
from emulation.served_faults import set_link

MODEL = 'yamata/models/tales-target-q8_0.gguf'
TOKENS = 30


class OnMachines(unittest.TestCase):
    """`ada` is the person on the first machine."""
    COUNT, RATE, AUTHORIZED = 3, 1000, True

    @classmethod
    def setUpClass(cls):
        cls.cluster = emulation.Cluster(cls.COUNT, rate=[cls.RATE])
        cls.enterClassContext(cls.cluster)
        cls.machines = machines.Machines(cls.cluster, cls.AUTHORIZED)
        cls.enterClassContext(cls.machines)
        cls.ada = cls.machines.first

    def run_here(self, command, code=0):
        """Runs launch/cluster as the person; returns what it says on both outputs."""
        done = self.ada.run(f'yamata/launch/cluster {command} 2>&1')
        self.assertEqual(done.returncode, code, done.stdout)
        return done.stdout

    def as_root(self, machine, command):
        done = machine.run(command, as_root=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def on(self, machine, command):
        done = machine.run(command)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def link(self, machine, state):
        set_link(machine.host, state)

    def alone(self, prompt='Once upon a time'):
        """The text on the first machine alone."""
        done = self.ada.run(f'.local/lib/yamata/x86_64/yamata run -m {MODEL} -p "{prompt}" -n {TOKENS} -t 1')
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout


class OnReadyMachines(OnMachines):
    """Behind `setup`."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        done = cls.ada.run('yamata/launch/cluster setup hosts --yes 2>&1')
        assert done.returncode == 0, done.stdout


def main(name, *cases):
    if reason := machines.why_not():
        print(f'{name}: skipped, {reason}')
        sys.exit(77)
    unittest.main(warnings='ignore')


__all__ = ['scene', 'OnMachines', 'OnReadyMachines', 'main', 'MODEL', 'TOKENS']
