"""Common parts of tests on emulated hosts: the program under test (the first argument), the scripts in launch/ as modules, the models."""
import importlib.machinery
import importlib.util
import os
import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent.parent
sys.path.insert(0, str(ROOT / 'launch/python'))
import start  # noqa: F401
sys.dont_write_bytecode = True

PROGRAM = pathlib.Path(sys.argv.pop(1))
os.environ['YAMATA_BUILD'] = str(PROGRAM.parent)
from emulation import hosts as emulation  # noqa: E402, F401  it looks for the build as it is imported
from emulation.campaign import PATIENCE  # noqa: F401

TARGET, DRAFT = (ROOT / 'models' / f'tales-{name}-q8_0.gguf' for name in ('target', 'draft'))


def some(*cases):
    """All cases; in the everyday suite only the first."""
    return cases if os.environ.get('YAMATA_THOROUGH') else cases[:1]


def script(name):
    """Imports a script of launch/ as a module."""
    loader = importlib.machinery.SourceFileLoader(name, str(ROOT / 'launch' / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    loader.exec_module(module)
    return module


class Shard(unittest.TestLoader):
    """Loads every nth test of each class, as GTEST_TOTAL_SHARDS and GTEST_SHARD_INDEX say."""

    def getTestCaseNames(self, case):
        count, index = (int(os.environ.get(f'GTEST_{name}', default)) for name, default in (('TOTAL_SHARDS', 1), ('SHARD_INDEX', 0)))
        return super().getTestCaseNames(case)[index::count]


def main(name, *cases):
    """Runs the tests of a file. If no hosts can be emulated here, `cases` are skipped, with the reason, and the exit code is 77."""
    reason = emulation.why_not()
    if reason:
        print(f'{name}: skipped, {reason}')
        for case in cases:
            case.__unittest_skip__, case.__unittest_skip_why__ = True, reason
    done = unittest.main(exit=False, warnings='ignore', testLoader=Shard()).result  # a cluster leaves resources to the interpreter to close
    sys.exit(0 if done.wasSuccessful() and not reason else 77 if done.wasSuccessful() else 1)
