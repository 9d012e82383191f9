"""Provides a Python with uvicorn and jinja2, Debian's packages, for launch/serve."""
import importlib.util
import os
import subprocess
import sys

from common.problem import Problem

SYSTEM_PYTHON = '/usr/bin/python3'  # the Python of Debian's packages
MODULES = 'uvicorn', 'h11', 'jinja2'
AGAIN = 'YAMATA_SERVE_AGAIN'


def missing(modules=MODULES):
    return [module for module in modules if not importlib.util.find_spec(module)]


def system_python_has(modules):
    look = 'import importlib.util, sys; sys.exit(not all(map(importlib.util.find_spec, sys.argv[1:])))'
    return os.path.exists(SYSTEM_PYTHON) and not subprocess.run([SYSTEM_PYTHON, '-c', look, *modules], check=False).returncode


def go_on_elsewhere(script, modules=MODULES):
    """Continues `script` in the system's Python if this one lacks modules and that one has them. Returns the modules that are missing."""
    lacking = missing(modules)
    if lacking and AGAIN not in os.environ and system_python_has(modules):
        os.environ[AGAIN] = '1'
        os.execv(SYSTEM_PYTHON, [SYSTEM_PYTHON, script, *sys.argv[1:]])
    os.environ.pop(AGAIN, None)
    return lacking


def provide(script, modules=MODULES):
    """The same; raises Problem if modules are missing in both."""
    if lacking := go_on_elsewhere(script, modules):
        raise Problem(f'{" and ".join(lacking)} missing; install with launch/install-packages --serve')
