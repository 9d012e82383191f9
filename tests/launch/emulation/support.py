"""Common parts of tests on emulated hosts: the program under test (the first argument), the scripts in launch/ as modules, the models."""
import importlib.machinery
import importlib.util
import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent.parent
sys.path.insert(0, str(ROOT / 'launch'))
sys.dont_write_bytecode = True

PROGRAM = pathlib.Path(sys.argv.pop(1))
os.environ['YAMATA_BUILD'] = str(PROGRAM.parent)
from emulation import hosts as emulation  # noqa: E402, F401  it looks for the build as it is imported
from emulation.campaign import PATIENCE  # noqa: E402, F401

TARGET, DRAFT = (ROOT / 'models' / f'tales-{name}-q8_0.gguf' for name in ('target', 'draft'))


def script(name):
    """Imports a script of launch/ as a module."""
    loader = importlib.machinery.SourceFileLoader(name, str(ROOT / 'launch' / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    loader.exec_module(module)
    return module
