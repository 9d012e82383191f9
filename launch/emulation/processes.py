"""The processes of a job, from the data in /proc."""
import pathlib

from . import hosts as emulation

TOKEN = 'YAMATA_FAULTS'  # the environment variable that identifies the processes of a job


class Process:
    """A process of a job."""

    def __init__(self, number):
        entry = pathlib.Path(f'/proc/{number}')
        self.number, self.name = number, (entry / 'comm').read_text().strip()
        self.environment = dict(pair.split('=', 1) for pair in (entry / 'environ').read_bytes().decode(errors='replace').split('\0')
                                if '=' in pair)
        self.parent = int((entry / 'stat').read_text().rpartition(')')[2].split()[1])

    def maps(self, path):
        try:
            return str(path) in pathlib.Path(f'/proc/{self.number}/maps').read_text()
        except OSError:
            return False


def command_of(process):
    try:
        return pathlib.Path(f'/proc/{process}/cmdline').read_bytes().decode(errors='replace')
    except OSError:
        return ''


def processes_of(token):
    """The living processes of a job, ranks and their parents without mpirun, by process id."""
    found, others = {}, {}
    for entry in pathlib.Path('/proc').glob('[0-9]*'):
        try:
            process = Process(int(entry.name))
        except (OSError, ValueError, IndexError):  # it has ended
            continue
        belongs = process.environment.get(TOKEN) == token and emulation.runs(process.number)
        (found if belongs else others)[process.number] = process
    return found, others
