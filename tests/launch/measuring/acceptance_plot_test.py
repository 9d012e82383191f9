"""launch/plot draws a file of yamata acceptance, and reports what is wrong with other files."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import interrupted_import

PLOT = pathlib.Path(__file__).resolve().parents[3] / 'launch' / 'plot'


def source(name, right):
    levels = [{'reached': 10, 'guessed': guessed, 'true_rate': right, 'calibrated_rate': right} for guessed in (9, 3, 0)]
    return {'name': name, 'levels': levels, 'accuracies': [[right, .1], [right / 2, 0], [0, 0]], 'tokens_per_run': {'2': 1.5, '16': 2.0},
            'ranks': [[[0, 1, -1]]]}


class AcceptancePlot(unittest.TestCase):
    def plot(self, text, name='rates.json'):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        path = pathlib.Path(self.folder.name, name)
        path.write_text(text)
        return self.again(name)

    def again(self, name='rates.json'):
        return subprocess.run([sys.executable, PLOT, pathlib.Path(self.folder.name, name)], capture_output=True, text=True, timeout=200)

    def test_file_that_is_none_is_named(self):
        remedy, none = 'name a file of yamata acceptance --json, or a results folder', ' is not a file of yamata acceptance: '
        for text, said in (('', f' is not JSON; {remedy}'), ('# notes', f' is not JSON; {remedy}'),
                           ('[]', f'{none}it is not an object; {remedy}'),
                           ('{"a": 1}', f'{none}sources is missing; {remedy}'),
                           ('{"sources": []}', ' has no guesses, so there is nothing to draw; measure with a source that guesses'),
                           ('{"sources": [{}]}', f'{none}sources[0].name is missing; {remedy}'),
                           *((json.dumps({'sources': [source('y', .5), source('x', .5) | {key: value}]}),
                              f'{none}sources[1].{fault}; {remedy}')
                             for key, value, fault in (('accuracies', [['a']], 'accuracies[0] is ["a"], not a list of shares'),
                                                       ('accuracies', [], 'accuracies is not a list, or empty'),
                                                       ('levels', [{}], 'levels[0].guessed is missing'),
                                                       ('tokens_per_run', {'8': []},
                                                        'tokens_per_run is {"8": []}, not the tokens of a run by its rows'),
                                                       ('tokens_per_run', {'x': 1},
                                                        'tokens_per_run is {"x": 1}, not the tokens of a run by its rows')))):
            done = self.plot(text)
            self.assertEqual((done.returncode, done.stderr), (2, f'plot: {self.folder.name}/rates.json{said}\n'))

    def test_file_is_not_overwritten(self):
        done = self.plot(json.dumps({'sources': [source('draft model', .7)]}), 'rates.svg')
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(done.stderr, f'plot: {self.folder.name}/rates.svg would be overwritten; write to another folder with --out\n')

    def test_ctrl_c_while_matplotlib_is_imported_ends_with_130_and_a_line(self):
        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.dict(os.environ, PYTHONPATH=folder):
            pathlib.Path(folder, 'matplotlib.py').write_text(interrupted_import.SOURCE)
            done = self.plot(json.dumps({'sources': [source('draft model', .7)]}))
        self.assertEqual((done.returncode, done.stderr), (130, 'plot: interrupted\n'))

    def test_rates_are_drawn(self):
        try:
            import matplotlib  # noqa: F401
        except ImportError:
            self.skipTest('matplotlib is not installed')
        done = self.plot(json.dumps({'sources': [source('draft model', .7), source('all', .8)]}))
        self.assertEqual(done.returncode, 0, done.stderr)
        for ending in ('png', 'svg'):
            self.assertGreater(pathlib.Path(self.folder.name, f'rates.{ending}').stat().st_size, 5000)
        ticks = re.findall('<!-- ([0-9.]+) -->', pathlib.Path(self.folder.name, 'rates.svg').read_text())
        self.assertIn('2', ticks)
        self.assertFalse({'1.25', '1.50', '1.2', '1.4'} & set(ticks), ticks)
        for ending in ('png', 'svg'):
            mine = pathlib.Path(self.folder.name, f'rates.{ending}')
            figure = mine.read_bytes()
            mine.write_text('mine')
            done = self.again()
            self.assertEqual((done.returncode, done.stderr), (1, f'plot: {mine} exists and is not a figure of launch/plot, so it is not '
                                                                 'replaced; write to another folder with --out\n'))
            self.assertEqual(mine.read_text(), 'mine')
            mine.write_bytes(figure)
        self.assertEqual(self.again().returncode, 0)


if __name__ == '__main__':
    unittest.main()
