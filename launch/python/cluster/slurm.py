"""The nodes of the Slurm job in which this runs: the host file of the name `slurm`."""
import os
import re
import shutil
import subprocess

from common.problem import Problem

from . import hostfile

WORD, NODES = 'slurm', 'SLURM_JOB_NODELIST'
# Steps of Slurm that are a person's shell or script, not ranks that srun has started.
SHELLS = {'4294967290', '4294967291'}


def is_meant(path):
    """Whether this names the nodes of a job. Raises Problem if there is no job."""
    if str(path) != WORD:
        return False
    if NODES not in os.environ and not os.path.exists(WORD):
        raise Problem('slurm means the nodes of a Slurm job, and this is in none; start one, such as: salloc --nodes=4')
    return NODES in os.environ


def parts(text):
    """What is between commas outside brackets."""
    return re.findall(r'(?:[^,\[]|\[[^\]]*\])+', text)


def expand(text):
    """The names of a list such as a[1-3,07],b: ['a1', 'a2', 'a3', 'a07', 'b']."""
    names = []
    for part in parts(text):
        found = re.search(r'\[([^\]]*)\]', part)
        if not found:
            names.append(part)
            continue
        for numbers in found[1].split(','):
            first, _, last = numbers.partition('-')
            if not first.isdigit() or last and not last.isdigit():
                raise Problem(f'{NODES}={text} is not understood at [{numbers}]; install scontrol, or write a host file')
            for number in range(int(first), int(last or first) + 1):
                names += expand(f'{part[:found.start()]}{number:0{len(first)}}{part[found.end():]}')
    return names


def nodes():
    """Their names. Steps of a job that follows a lost one may begin while that is still ending, or beside a shell of salloc."""
    os.environ['SLURM_OVERLAP'] = '1'
    try:
        told = subprocess.run(['scontrol', 'show', 'hostnames', os.environ[NODES]], capture_output=True, text=True)
        if told.returncode == 0 and told.stdout.split():
            return told.stdout.split()
    except OSError:
        pass
    return expand(os.environ[NODES])


def parameters():
    """Of mpirun: it starts ranks by srun, or without that by ssh."""
    return {} if shutil.which('srun') else {'plm': 'rsh'}


class Settings(hostfile.Settings):
    """Nothing is kept: the program is at the same path on all nodes, and ssh needs to know no more than it does."""

    def __init__(self):
        super().__init__(WORD)
        self.path, self.network, self.is_there, self.has_program = None, None, True, True

    def write(self, hosts):
        pass

    def mpirun_words(self):
        return hostfile.words_of(parameters())


def read():
    """(hosts, settings), in place of those of a file."""
    hosts = [hostfile.Host(name) for name in nodes()]
    for host in hosts:
        host.by_srun = bool(shutil.which('srun'))
    return hosts, Settings()
