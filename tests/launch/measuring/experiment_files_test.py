"""Every run and every command of the files in launch/experiments/, with and without --full, has flags that the program accepts together.

    experiment_files_test.py YAMATA

Each is started with a model that there is not: so flags, presets and trees are read, and then the program ends.
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from scene import ROOT
from measuring import commands, full_grid, plan

YAMATA = sys.argv.pop(1)
ABSENT = 'absent.gguf'
FILES = sorted((ROOT / 'launch/experiments').glob('*.toml'))
# A tree of each width, as of profile --tree-out, and rates, as of acceptance --json.
CHAIN = [[0] * depth for depth in range(1, 64)]
TREES = {'tree': CHAIN[:3], 'choices': [{'width': rows, 'tree': CHAIN[:rows - 1]} for rows in (1, 2, 4, 8, 16, 32, 64)]}
RATES = {'sources': [{'name': 'all', 'accuracies': [[.5, .3, .1]] * 6, 'ranks': [[[0], [0]]]}]}


def placed(flag, word, folder):
    """The word with files that there are."""
    if flag in ('-m', '-md'):
        return ABSENT
    if flag == '-f':
        return str(folder / 'prompt.jsonl')
    if flag == '--tree-from':
        return str(folder / 'rates.json')
    if flag == '--tree':
        return str(folder / ('tree.json' if 'tree' in word.partition('{results}')[2] else 'rates.json'))
    return str(folder / 'out') if flag in ('--json', '--tree-out') else word


def ranks_of(run):
    """How many ranks the launcher starts; launch/emulate may start fewer than there are hosts."""
    given = dict(zip(run.command, run.command[1:])).get('--np')
    return int(given or run.columns['nodes'] or 1)


class ExperimentFiles(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        for name, content in ('tree.json', TREES), ('rates.json', RATES), ('prompt.jsonl', {'prompt': 'Once'}):
            (self.folder / name).write_text(json.dumps(content) + '\n')

    def said(self, words):
        """The last line that the program writes when it is started with these words."""
        words = [placed(before, word, self.folder) for before, word in zip(('', *words), words)]
        done = subprocess.run([YAMATA, *words], cwd=self.folder, capture_output=True, text=True, timeout=60)
        return done.returncode, ''.join(done.stderr.strip().splitlines()[-1:])

    def expect_accepted(self, name, words, ranks=1):
        """One rank is started here, whatever a layer split or several drafts need."""
        code, said = self.said(words)
        right = code == 2 and f'cannot open {ABSENT}' in said
        needed = code == 1 and re.search(r' has (\d+) shares, but there is 1 rank; |; start at least (\d+) ranks$', said)
        enough = needed and ranks > 1 and (needed[1] or str(ranks)) == str(ranks) and int(needed[2] or 0) <= ranks
        self.assertTrue(right or enough, f'{name}: {" ".join(words)}\n{said}')

    def whole(self, path):
        """The experiment of a file, and the same with all of [full], whether its files exist or not."""
        toml = plan.read(path)
        given = toml.get('full', {})
        full = {key: value for key, value in toml.items() if key != 'full'}
        for key, value in given.items():
            full[key] = value if key in full_grid.VALUES else {**full.get(key, {}), **value}
        full['prompts'] = {'one': {'text': 'Once'}}
        return [plan.Plan(full_grid.settled(toml, False)[0] | {'prompts': full['prompts']}), plan.Plan(full)]

    def test_flags_of_every_run_and_command_are_accepted(self):
        before = os.getcwd()
        os.chdir(ROOT)
        self.addCleanup(os.chdir, before)
        self.assertGreater(len(FILES), 15)
        for path in FILES:
            tried = set()
            for experiment in self.whole(path):
                for run in experiment.configured:
                    words = run.command[run.command.index(experiment.yamata) + 1:] if experiment.yamata in run.command else ()
                    if words and words not in tried:
                        self.expect_accepted(f'{path.name}: {run.columns["strategy"]}', words, ranks_of(run))
                    tried.add(words)
                for command in commands.commands_of(experiment):
                    words = command.words[1:]
                    if words[0] == 'simulate':
                        self.assertEqual(self.said((*words, '-n', '4', '--prompt-tokens', '4', '--repeats', '1'))[0], 0, command.name)
                    elif words not in tried:
                        self.expect_accepted(f'{path.name}: {command.name}', words)
                    tried.add(words)


if __name__ == '__main__':
    unittest.main()
