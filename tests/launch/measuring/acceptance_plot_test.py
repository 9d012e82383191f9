"""launch/plot draws a file of yamata acceptance, and reports what is wrong with other files."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import interrupted_import  # noqa: E402

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
        return subprocess.run([sys.executable, PLOT, path], capture_output=True, text=True, timeout=200)

    def test_file_that_is_none_is_named(self):
        for text in ('', '[]', '{"sources": []}', '{"sources": [{}]}',
                     json.dumps({'sources': [source('x', .5) | {'accuracies': [['a']]}]})):
            done = self.plot(text)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn('rates.json', done.stderr)
            self.assertEqual(done.stderr.count('\n'), 1, done.stderr)

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


if __name__ == '__main__':
    unittest.main()
