"""Provides matplotlib for a script, even if this Python does not have it."""
import importlib.util
import os
import subprocess
import sys

from common import interrupt, places
from common.problem import Problem

SYSTEM_PYTHON = '/usr/bin/python3'  # the Python of Debian's packages


def provide(script):
    """Imports matplotlib. If it is missing, installs Debian's and continues `script` in the system's Python."""
    if not importlib.util.find_spec('matplotlib') and 'YAMATA_PLOT_AGAIN' not in os.environ:
        subprocess.run([places.LAUNCH / 'install-packages', '--plots'], check=False)
        importlib.invalidate_caches()
    if importlib.util.find_spec('matplotlib'):
        with interrupt.ends_at_once():
            from . import plots  # noqa: F401
        return
    if os.path.realpath(sys.executable) == os.path.realpath(SYSTEM_PYTHON) or os.environ.get('YAMATA_PLOT_AGAIN'):
        raise Problem('matplotlib is missing; install it with apt-get install python3-matplotlib or pip install matplotlib')
    os.environ['YAMATA_PLOT_AGAIN'] = '1'
    os.execv(SYSTEM_PYTHON, [SYSTEM_PYTHON, script, *sys.argv[1:]])
