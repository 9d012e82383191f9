"""Provides a Python with PyTorch and gguf for training scripts."""
import importlib.util
import os
import subprocess
import sys

from common import places
from common.problem import Problem

SYSTEM_PYTHON = '/usr/bin/python3'  # the Python of Debian's packages
AGAIN = 'YAMATA_TRAIN_AGAIN'


def environment_folder():
    return places.kept_folder() / 'training-python'


def is_system_python():
    return sys.prefix == sys.base_prefix and os.path.realpath(sys.executable) == os.path.realpath(SYSTEM_PYTHON)


def missing(modules):
    return [module for module in modules if not importlib.util.find_spec(module)]


def run(*command):
    return subprocess.run(command, stdout=sys.stderr, check=False).returncode == 0


def provide(script, modules=('torch', 'gguf')):
    """Continues `script` in a Python that has `modules`: in the current one if it has them; else in a virtual environment below
    places.kept_folder() that also sees Debian's python3-torch (launch/install-packages --training), with gguf from PyPI. Raises Problem if
    that fails."""
    os.environ.setdefault('OMP_WAIT_POLICY', 'passive')  # spinning threads make training many times slower if others need the core
    lacking = missing(modules)
    if not lacking:
        return
    python = environment_folder() / 'bin' / 'python'
    remedy = ('make an environment (python3 -m venv ~/venv; ~/venv/bin/pip install torch numpy gguf), and run the script with '
              '~/venv/bin/python')
    if 'torch' not in lacking and 'torch' in modules and not is_system_python():
        raise Problem(f'{sys.executable} has PyTorch, but not {" and ".join(lacking)}; install it ({sys.executable} -m pip install '
                      f'{" ".join(lacking)}), or run the script with {SYSTEM_PYTHON}')
    if os.environ.get(AGAIN):
        raise Problem(f'{" and ".join(lacking)} missing in {sys.executable}; {remedy}')
    if not has(python, modules):
        make_environment(python, 'torch' in modules, remedy)
    go_on(python, script)


def go_on_or_skip(script, modules):
    """For tests: likewise, but installs nothing. If there is no such Python, prints that and exits with 77 (skipped)."""
    python = environment_folder() / 'bin' / 'python'
    if not missing(modules):
        return
    if not os.environ.get(AGAIN) and has(python, modules):
        go_on(python, script)
    print(f'skipped: no Python with {", ".join(modules)} here; launch/train-heads makes one when it is first used')
    sys.exit(77)


def has(python, modules):
    look = 'import importlib.util, sys; sys.exit(not all(map(importlib.util.find_spec, sys.argv[1:])))'
    return python.exists() and subprocess.run([python, '-c', look, *modules], capture_output=True, check=False).returncode == 0


def go_on(python, script):
    os.environ[AGAIN] = '1'
    os.execv(python, [str(python), str(script), *sys.argv[1:]])


def make_environment(python, needs_torch, remedy):
    folder = python.parent.parent
    print(f'making a Python environment in {folder}', file=sys.stderr, flush=True)
    if not run(places.LAUNCH / 'install-packages', '--training' if needs_torch else '--gguf'):
        raise Problem(f'Debian\'s packages for training could not be installed; {remedy}')
    folder.parent.mkdir(parents=True, exist_ok=True)
    if not run(SYSTEM_PYTHON, '-m', 'venv', '--clear', '--system-site-packages', folder):
        raise Problem(f'{folder} cannot be made; {remedy}')
    if not run(python, '-m', 'pip', 'install', '-q', 'gguf'):
        raise Problem(f'gguf cannot be installed from PyPI into {folder}; {remedy}')
