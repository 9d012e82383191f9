"""launch/cluster run: a text, or another command of yamata, on the machines of a host file."""
import os
import sys

from common import as_root, places
from common.problem import Problem

from . import check, hostfile


def run(path, words):
    """Becomes the program; does not return. Raises Problem."""
    hosts, settings = hostfile.read(path), hostfile.Settings(path)
    if not settings.is_there or not settings.has_program:
        raise Problem(f'these machines are not set up; run: launch/cluster setup {path}')
    if not words:
        raise Problem('name a model and a prompt: launch/cluster run HOSTS -m MODEL -p TEXT')
    if words[0].startswith('-') and words[0] != '--':
        command = [sys.executable, str(places.LAUNCH / 'batch'), '--hostfile', str(path), *words]
    else:
        cluster = check.Cluster(path)
        command = cluster.mpirun([*hostfile.program_words(), *words[words[0] == '--':]], len(hosts))
        print(hostfile.shown(command), file=sys.stderr, flush=True)
    try:
        os.execvpe(command[0], command, as_root.environment())
    except OSError as error:
        raise Problem(f'{command[0]} cannot be started ({error.strerror}); launch/cluster check {path} says more') from None
