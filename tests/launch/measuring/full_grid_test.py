"""Tests launch/experiment --full: what the table [full] adds, and what is left out."""
import os
import pathlib
import subprocess
import sys
import tempfile
import tomllib
import unittest

from scene import ROOT, Folder, strategies
from common.problem import Problem
from measuring import commands, cuda, full_grid, plan

PAPERS = ('ghidorah', 'dovetail', 'medusa-dynamic', 'pipeinfer', 'duodecoding')


class FullGrid(unittest.TestCase):
    def settled(self, text, full=True):
        return full_grid.settled(tomllib.loads(text), full)

    def test_values_are_replaced_and_entries_added(self):
        text = strategies('a').replace('repeats = 3', 'repeats = 3\ntokens = 8') + '[sweep]\n"--draft" = [1]\n[full]\ntokens = [8, 16]\n' \
            '[full.sweep]\n"--draft" = [1, 2]\n[full.strategies]\nb = []\n[full.prompts.queen]\ntext = "A queen"\n'
        whole, left_out = self.settled(text)
        self.assertEqual((whole['tokens'], whole['repeats'], whole['sweep'], left_out), ([8, 16], 3, {'--draft': [1, 2]}, []))
        self.assertEqual((list(whole['strategies']), list(whole['prompts'])), (['a', 'b'], ['king', 'queen']))
        self.assertEqual(len(list(plan.Plan(whole).runs())), 3 * 2 * 2 * 2 * 2)
        short, _ = self.settled(text, full=False)
        self.assertEqual((short['tokens'], list(short['prompts'])), (8, ['king']))
        self.assertEqual(len(list(plan.Plan(short).runs())), 3)

    def test_prompts_and_commands_without_their_file_are_named_and_left_out(self):
        with tempfile.NamedTemporaryFile('w', suffix='.jsonl') as there:
            text = strategies('a') + '[full.prompts.gone]\nfile = "gone.jsonl"\nsource = "a shop"\n' \
                f'[full.prompts.there]\nfile = "{there.name}"\n[full.commands.gone]\nflags = ["acceptance", "-f", "gone.jsonl"]\n' \
                f'[full.commands.there]\nflags = ["acceptance", "-f", "{there.name}"]\n'
            whole, left_out = self.settled(text)
        self.assertEqual(left_out, ['prompts.gone is left out: gone.jsonl does not exist; get it from a shop',
                                    'commands.gone is left out: gone.jsonl does not exist'])
        self.assertEqual((list(whole['prompts']), list(whole['commands'])), (['king', 'there'], ['there']))

    def test_strategies_on_a_gpu_are_left_out_where_there_is_none(self):
        text = strategies('a') + '[full.strategies]\nlayers = ["--units", "cpu+cuda:0", "-ngl", "3"]\n'
        self.addCleanup(setattr, cuda, 'has_gpu', cuda.has_gpu)
        for has, left_out in (False, ['strategies.layers is left out: there is no NVIDIA GPU here']), (True, []):
            cuda.has_gpu = lambda has=has: has
            self.assertEqual(self.settled(text)[1], left_out)

    def test_models_without_their_files_are_named_and_left_out(self):
        with tempfile.NamedTemporaryFile(suffix='.gguf') as there:
            text = strategies('a') + f'[full.models.gone]\ntarget = "{there.name}"\ndraft = ["{there.name}", "gone.gguf"]\n' \
                f'[full.models.there]\ntarget = "{there.name}"\n'
            whole, left_out = self.settled(text)
        self.assertEqual(left_out, ['models.gone is left out: gone.gguf does not exist'])
        self.assertEqual(list(whole['models']), ['m', 'there'])

    def test_what_reads_a_file_of_a_command_that_is_left_out_is_left_out_with_it(self):
        text = strategies('a', 'other') + '[full.strategies]\nnew = ["--tree", "{results}/tree.json"]\n' \
            'a = ["--tree", "{results}/gone.json"]\nb = ["--no-lookup"]\n' \
            '[full.commands.gone]\nflags = ["acceptance", "-f", "gone.jsonl"]\n' \
            '[full.commands.profile]\nflags = ["profile", "--tree-from", "{results}/gone.json", "--tree-out", "{results}/tree.json"]\n'
        whole, left_out = self.settled(text)
        self.assertEqual(left_out, ['strategies.new is left out: {results}/tree.json is of commands.profile',
                                    'strategies.a is left out: {results}/gone.json is of commands.gone',
                                    'commands.gone is left out: gone.jsonl does not exist',
                                    'commands.profile is left out: {results}/gone.json is of commands.gone'])
        self.assertEqual(list(whole['strategies']), ['a', 'other', 'b'])
        self.assertEqual(whole['strategies']['a'], self.settled(text, full=False)[0]['strategies']['a'], 'its own')

    def test_strategies_without_their_heads_are_named_and_left_out(self):
        with tempfile.NamedTemporaryFile(suffix='.safetensors') as there:
            text = strategies('a') + '[full.strategies]\ngone = { flags = ["--preset", "dovetail", "--heads", "gone.safetensors"] }\n' \
                f'there = {{ flags = ["--heads", "{there.name}"] }}\nlist = ["--no-lookup"]\n'
            whole, left_out = self.settled(text)
        self.assertEqual(left_out, ['strategies.gone is left out: gone.safetensors does not exist'])
        self.assertEqual(list(whole['strategies']), ['a', 'there', 'list'])

    def test_what_it_cannot_have_is_refused_with_and_without_the_flag(self):
        for text, said in (('full = 5\n', 'full is 5, not a table; write .full.'),
                           ('[full]\nyamata = "x"\n', "full: 'yamata' is not known"),
                           ('[full]\nprompts = 3\n', 'full: prompts is 3, not a table; write .full.prompts.')):
            for full in (False, True):
                with self.subTest(said, full=full), self.assertRaisesRegex(Problem, said):
                    self.settled(text, full)
        with self.assertRaisesRegex(Problem, 'there is no .full.; write what the whole grid adds, or leave --full out'):
            self.settled(strategies('a'))
        for text in ('[full.prompts]\nx = 5\n', '[full.commands]\nx = 5\n', '[full.commands.x]\nflags = 5\n',
                     '[full.prompts.x]\nfile = 5\n'):
            with self.subTest(text), self.assertRaisesRegex(Problem, r'\b(prompts|commands)\.x\b'):
                whole = plan.Plan(self.settled(strategies('a') + text)[0])
                list(commands.commands_of(whole))

    def test_the_papers_files_have_a_whole_grid_that_is_larger(self):
        before = os.getcwd()
        os.chdir(ROOT)
        self.addCleanup(os.chdir, before)
        for paper in PAPERS:
            with self.subTest(paper):
                path = f'launch/experiments/{paper}.toml'
                short, whole = (plan.load(path, full) for full in (False, True))
                self.assertEqual(short.left_out, [])
                self.assertLess(len(short.configured) * short.repeats, len(whole.configured) * whole.repeats + len(whole.left_out))


class Command(Folder):
    def test_it_has_a_folder_of_its_own_and_names_what_is_absent(self):
        toml = strategies('a') + '[full]\nrepeats = 1\n[full.prompts.gone]\nfile = "gone.jsonl"\n'
        (self.path / 'e.toml').write_text(toml)
        words = [sys.executable, ROOT / 'launch/experiment', 'e.toml', '--full']
        done = subprocess.run(words, cwd=self.path, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn('experiment: prompts.gone is left out: gone.jsonl does not exist\n', done.stderr)
        self.assertEqual(len(pathlib.Path(self.path, 'results/e-full/results.csv').read_text().splitlines()), 2)
        self.assertFalse((self.path / 'results/e').exists())


if __name__ == '__main__':
    unittest.main()
