#!/usr/bin/env python3
"""launch/cluster run HOSTS -- COMMAND on emulated machines: it reads its input only for a command that does, says in the project's words
what happens to it, and ends soon after a machine is lost."""
import subprocess

from machines_case import MODEL, OnReadyMachines, main

ENDLESS = f'run -m {MODEL} -p "Once upon a time" -n 100000 -c 200000 --ignore-eos -t 1 --layer-split 1,1,1'


class Commands(OnReadyMachines):
    def start(self, command, **more):
        return subprocess.Popen(self.ada.inside(f'yamata/launch/cluster run hosts -- {command}'), text=True,
                                **{'stdin': subprocess.DEVNULL, 'stdout': subprocess.PIPE, 'stderr': subprocess.PIPE} | more)

    def lines_after_command(self, error):
        """What is said besides the line of mpirun."""
        lines = error.splitlines()
        self.assertRegex(lines[0], '^mpirun ')
        return lines[1:]

    def test_a_lost_machine_is_a_line_and_the_end(self):
        job = self.start(ENDLESS)
        self.assertTrue(job.stdout.read(200))
        self.link(self.machines.all[2], 'down')
        try:
            out, error = job.communicate()  # the test's time limit is less than mpirun's own patience
        finally:
            self.link(self.machines.all[2], 'up')
        self.assertNotEqual(job.returncode, 0)
        told = [line for line in self.lines_after_command(error) if line.startswith(('yamata: ', 'cluster: ')) and 'warning' not in line]
        self.assertRegex('\n'.join(told), r'rank 2 \(n2\)|lost a machine')
        self.assertNotIn('-----', error)
        self.assertNotIn('ORTE', error)

    def test_it_leaves_the_input_of_a_loop(self):
        done = self.ada.run(f'for i in 1 2; do echo $i; done | while read i; do yamata/launch/cluster run hosts -- inspect -m {MODEL} '
                            '> /dev/null; echo $i; done')
        self.assertEqual(done.stdout, '1\n2\n')

    def test_a_command_that_reads_gets_it(self):
        job = self.start(f'run -m {MODEL} -f - -n 5 -t 1', stdin=subprocess.PIPE)
        out, error = job.communicate('Once upon a time')
        self.assertEqual((job.returncode, out), (0, " the King's son\n"), error)

    def test_errors_are_of_the_program(self):
        job = self.start('run -m nothing.gguf -p Hi')
        error = self.lines_after_command(job.communicate()[1])
        self.assertEqual((job.returncode, len(error)), (2, 1), error)
        self.assertRegex(error[0], '^yamata: .*nothing.gguf')

    def test_interrupted(self):
        job = self.start(ENDLESS)
        self.assertTrue(job.stdout.read(200))
        self.on(self.ada, 'kill -INT $(grep -lz "^yamata/launch/cluster" /proc/[0-9]*/cmdline | cut -d/ -f3)')
        self.assertNotEqual(job.wait(), 0)
        self.assertNotIn('Traceback', job.communicate()[1])

    def test_fetched_layers_are_removed_everywhere(self):
        self.assertEqual(self.start(f'run -m {MODEL} -p Hi -n 2 -t 1 --layer-split 1,1,1').wait(), 0)
        self.assertIn('n2 keeps layers of: ', self.run_here('status hosts'))
        self.assertRegex(self.run_here('run hosts -- fetch --remove all'), '(?m)^n1: removed [^n]*\nn2: removed ')
        self.assertNotIn('keeps layers', self.run_here('status hosts'))


if __name__ == '__main__':
    main('run_test', Commands)
