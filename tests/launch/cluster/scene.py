"""Common parts of tests of launch/cluster."""
import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / 'launch/python'))
sys.dont_write_bytecode = True
if len(sys.argv) > 1 and sys.argv[1].endswith('yamata'):
    os.environ['YAMATA_BUILD'] = str(pathlib.Path(sys.argv.pop(1)).parent)
import start  # noqa: E402, F401
