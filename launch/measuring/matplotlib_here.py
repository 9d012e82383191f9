"""matplotlib for a script that draws, also where this Python has none."""
import importlib.util
import os
import pathlib
import subprocess
import sys

from .problem import Problem

HERE = pathlib.Path(__file__).resolve().parent
SYSTEM_PYTHON = '/usr/bin/python3'  # what Debian's packages belong to


def provide(script):
    """Installs Debian's where it is missing, and goes on with `script` in the system's Python where this one has none."""
    if not importlib.util.find_spec('matplotlib') and 'YAMATA_PLOT_AGAIN' not in os.environ:
        subprocess.run([HERE.parent / 'install-packages', '--plots'], check=False)
        importlib.invalidate_caches()
    if importlib.util.find_spec('matplotlib'):
        return
    if os.path.realpath(sys.executable) == os.path.realpath(SYSTEM_PYTHON) or os.environ.get('YAMATA_PLOT_AGAIN'):
        raise Problem('matplotlib is missing; install it with apt-get install python3-matplotlib or pip install matplotlib')
    os.environ['YAMATA_PLOT_AGAIN'] = '1'
    os.execv(SYSTEM_PYTHON, [SYSTEM_PYTHON, script, *sys.argv[1:]])
