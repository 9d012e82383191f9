#!/usr/bin/env python3
"""Tests the host file named slurm: the nodes of a job, as scontrol or as this project reads them."""
import os
import pathlib
import tempfile
import unittest
import unittest.mock

import scene  # noqa: F401
from cluster import check, remote, run, slurm
from common.problem import Problem
from serving import start_checks

LISTS = {'n1': ['n1'], 'n[1-3]': ['n1', 'n2', 'n3'], 'a[08-10,2],b': ['a08', 'a09', 'a10', 'a2', 'b'], 'r[1-2]n[0-1]': ['r1n0', 'r1n1',
         'r2n0', 'r2n1'], 'gpu-[001]-x,cpu.lab': ['gpu-001-x', 'cpu.lab']}


class Slurm(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder, self.before = pathlib.Path(folder.name), os.getcwd()
        os.chdir(folder.name)
        self.addCleanup(os.chdir, self.before)

    def job(self, nodes, **programs):
        """Within a job, with these programs on PATH alone."""
        for name, script in programs.items():
            self.folder.joinpath(name).write_text(f'#!/bin/sh\n{script}\n')
            self.folder.joinpath(name).chmod(0o755)
        patch = unittest.mock.patch.dict(os.environ, {'SLURM_JOB_NODELIST': nodes, 'PATH': str(self.folder)})
        patch.start()
        self.addCleanup(patch.stop)

    def test_lists_of_nodes(self):
        for text, names in LISTS.items():
            self.assertEqual(slurm.expand(text), names)
        with self.assertRaisesRegex(Problem, r'n\[1-x\] is not understood at \[1-x\]; '):
            slurm.expand('n[1-x]')

    def test_scontrol_is_asked_first(self):
        self.job('n[1-2]', scontrol='[ "$*" = "show hostnames n[1-2]" ] && printf "one\\ntwo\\n"')
        self.assertEqual(slurm.nodes(), ['one', 'two'])
        self.folder.joinpath('scontrol').write_text('#!/bin/sh\nexit 1\n')
        self.assertEqual(slurm.nodes(), ['n1', 'n2'])

    def test_without_scontrol_the_servers_have_the_same_nodes(self):
        self.job('n[1-2]')
        self.assertEqual([machine.name for machine in start_checks.machines('slurm')], ['n1', 'n2'])
        self.assertEqual(os.environ['SLURM_OVERLAP'], '1')

    def test_mpirun_uses_srun_or_else_ssh(self):
        self.job('n[1-2]')
        command = run.command_of(check.Cluster('slurm'), ['bench'])
        self.assertNotIn('--hostfile', command)
        self.assertEqual(command[command.index('-np') + 1], '2')
        self.assertIn('--mca plm rsh', ' '.join(command))
        self.assertEqual(remote.command_for(check.Cluster('slurm').hosts[0], None, ['true'])[0], 'ssh')
        self.job('n[1-2]', srun='')
        self.assertNotIn('plm', run.command_of(check.Cluster('slurm'), ['bench']))
        self.assertEqual(remote.command_for(check.Cluster('slurm').hosts[0], None, ['true'])[0], 'srun')

    def test_outside_a_job(self):
        with unittest.mock.patch.dict(os.environ):
            os.environ.pop('SLURM_JOB_NODELIST', None)
            for reads in check.Cluster, start_checks.machines:
                with self.assertRaisesRegex(Problem, 'this is in none; start one, such as: salloc'):
                    reads('slurm')
            self.folder.joinpath('slurm').write_text('attic\n')
            self.assertEqual([host.name for host in check.Cluster('slurm').hosts], ['attic'])

    def test_a_shell_of_salloc_is_no_rank(self):
        start_checks.refuse_launchers({'SLURM_STEP_ID': '4294967290'})
        with self.assertRaisesRegex(Problem, 'srun has started this'):
            start_checks.refuse_launchers({'SLURM_STEP_ID': '0'})


if __name__ == '__main__':
    unittest.main()
