#!/usr/bin/env python3
"""launch/cluster in jobs of a real Slurm, with two nodes that are both this machine. slurm_job_test.py PROGRAM; skipped (77) without the
packages slurmctld, slurmd and slurm-client, and without root."""
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

import scene

MODEL = scene.ROOT / 'models/tales-target-q8_0.gguf'
TEXT = ['-m', MODEL, '-p', 'Once upon a time', '-n', '20', '-t', '1', '--layer-split', '1,1']
CONFIGURATION = '''ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
AuthType=auth/none
CredType=cred/none
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/controller.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/controller.log
SlurmdLogFile={folder}/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
NodeName=node1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs={cores} State=UNKNOWN
NodeName=node2 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs={cores} State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES State=UP
'''


def free_ports(count):
    sockets = [socket.create_server(('127.0.0.1', 0)) for _ in range(count)]
    ports = [its.getsockname()[1] for its in sockets]
    for its in sockets:
        its.close()
    return ports


class Jobs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        (cls.folder / 'state').mkdir()
        configuration = cls.folder / 'slurm.conf'
        configuration.write_text(CONFIGURATION.format(folder=cls.folder, host=socket.gethostname().partition('.')[0], ports=free_ports(3),
                                                      cores=os.cpu_count()))
        cls.environment = os.environ | {'SLURM_CONF': str(configuration)}
        for command in ['slurmctld', '-D'], ['slurmd', '-D', '-N', 'node1'], ['slurmd', '-D', '-N', 'node2']:
            daemon = subprocess.Popen(command, env=cls.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            cls.addClassCleanup(daemon.wait)
            cls.addClassCleanup(daemon.send_signal, signal.SIGTERM)

    def in_job(self, *command):
        done = subprocess.run(['salloc', '--quiet', '--nodes=2', *map(str, command)], env=self.environment, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_texts_and_status_over_the_nodes_of_the_job(self):
        cluster = scene.ROOT / 'launch/cluster'
        alone = subprocess.run([os.environ['YAMATA_BUILD'] + '/yamata', 'run', *map(str, TEXT[:-2])], capture_output=True, text=True).stdout
        self.assertTrue(alone)
        self.assertEqual(self.in_job(cluster, 'run', 'slurm', '--', 'run', *TEXT), alone)
        self.assertEqual(self.in_job(cluster, 'run', 'slurm', *TEXT), alone)
        status = self.in_job(cluster, 'status', 'slurm')
        self.assertRegex(status, r'(?m)^node1 +by srun .* 4\.[0-9.]+ .*yamata')
        self.assertRegex(status, r'(?m)^node2 +by srun ')


if __name__ == '__main__':
    if os.geteuid() or any(not shutil.which(name) for name in ('slurmctld', 'slurmd', 'salloc')):
        print('slurm_job_test: skipped; as root, with: apt-get install slurmctld slurmd slurm-client')
        sys.exit(77)
    unittest.main()
