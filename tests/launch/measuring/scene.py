"""A folder with a small script in place of yamata, in which launch/experiment runs."""
import csv
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent.parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / 'launch/python'))
import start  # noqa: F401

ENGINE = ROOT / 'tests/launch/serving/engine_double.py'

# As an engine, it is the double of the tests of launch/serve. Else writes the JSON of a run. Strategies: hang never ends, has a child and
# ignores requests to end; fail crashes; others write different texts.
FAKE = f'''#!{sys.executable}
import json, os, signal, sys, time
if sys.argv[1] == '--version':
    sys.exit(print('yamata 9.9'))
if sys.argv[-1] == '--help':
    sys.exit("yamata: '--draf' is not a flag" if '--draf' in sys.argv else 0)
value = lambda flag: sys.argv[sys.argv.index(flag) + 1]
if sys.argv[1] == 'engine':
    print('engine', file=open('calls', 'a'))
    os.execv(sys.executable, [sys.executable, '{ENGINE}', *sys.argv[1:]])
if sys.argv[1] in ('acceptance', 'profile', 'simulate'):
    print(sys.argv[1], file=open('calls', 'a'))
    if '--bad' in sys.argv:
        sys.exit(print('yamata: there are no rates', file=sys.stderr) or 2)
    json.dump(sys.argv[1:], open(value('--json'), 'w'))
    sys.exit(print('the rates'))
if '--tree' in sys.argv:
    json.load(open(value('--tree')))
strategy = value('--strategy')
print(strategy, file=open('calls', 'a'))
if strategy == 'wait' and os.path.exists('gate'):
    print(os.getpid(), file=open('gate', 'w'))
if strategy == 'hang' or strategy == 'wait' and os.path.exists('gate'):
    signal.signal(signal.SIGTERM, signal.SIG_IGN if strategy == 'hang' else signal.SIG_DFL)
    child = os.fork()
    if child:
        print(os.getpid(), child, file=open('pids', 'w'))
    time.sleep(600)
if strategy == 'fail':
    sys.exit(print('yamata: the model is gone; bring it back', file=sys.stderr) or 2)
ranks = [dict(rss_bytes=10, mapped_bytes=7, busy_s=1, wait_s=3), dict(rss_bytes=20, mapped_bytes=5, busy_s=1, wait_s=1)]
json.dump(dict(strategy=strategy, ranks=2, decode_tokens_per_s=100 + len(strategy), ttft_s=0.1, text='no,\\n"column"',
               token_ids=[1, 2 if strategy == 'other' else 3], per_rank=ranks), open(value('--json'), 'w'))
print('speed: 50.5 tokens per second')
'''

BASE = '''
yamata = "./fake"
repeats = 3
deadline_s = 60
[models.m]
target = "target"
draft = "draft"
[clusters.one]
ranks = 1
[prompts.king]
kind = "prose"
text = "A king, \\"old\\"\\nand wise"
[strategies]
'''


def strategies(*names):
    return BASE + ''.join(f'{name} = ["--strategy", "{name}"]\n' for name in names)


class Folder(unittest.TestCase):
    """A temporary folder with the fake program, two empty models, and a function that runs launch/experiment there."""

    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.path = pathlib.Path(temporary.name)
        (self.path / 'fake').write_text(FAKE)
        (self.path / 'fake').chmod(0o755)
        (self.path / 'target').touch()
        (self.path / 'draft').touch()

    def start(self, toml, *flags):
        (self.path / 'e.toml').write_text(toml)
        return subprocess.Popen([sys.executable, ROOT / 'launch' / 'experiment', 'e.toml', '--out', 'out', *flags], cwd=self.path,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def run_to_end(self, toml, *flags):
        process = self.start(toml, *flags)
        _, self.said = process.communicate()
        return process.returncode

    def rows(self):
        with open(self.path / 'out' / 'results.csv') as file:
            return list(csv.DictReader(file))

    def calls(self):
        return (self.path / 'calls').read_text().split()

    def wait_for(self, name):
        """Waits until the fake program has written the file."""
        while not (self.path / name).exists() or not (self.path / name).read_text().endswith('\n'):
            os.sched_yield()
        return (self.path / name).read_text().split()
