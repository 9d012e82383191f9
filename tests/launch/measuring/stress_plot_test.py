"""launch/plot draws a table of launch/stress, and reports what is wrong with other tables."""
import csv
import importlib.util
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / 'launch' / 'python'))
import start  # noqa: F401

from common.problem import Problem
from emulation.stress_runs import COLUMNS
from measuring import stress_plot

CHOSEN, BEST = 'chosen_by_hand_tokens_per_s', 'best_by_hand_tokens_per_s'
NOT_BY_HAND = {CHOSEN: '', BEST: ''}
ROW = dict(seed=1, hosts=2, cpu=[10, 40], cores=[1, 1], isa=['best', 'avx2'], fault='none', iterative_tokens_per_s=5.0,
           guessing_tokens_per_s=6.0, iterative_of_expected=.9, guessing_of_expected=1.1, best='n1 speculative',
           chosen_by_hand_tokens_per_s=6.1, best_by_hand_tokens_per_s=6.4, outcome='right')


class StressPlot(unittest.TestCase):
    def table(self, *rows, columns=COLUMNS):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name, 'stress.csv')
        with open(self.path, 'w', newline='') as file:
            writer = csv.DictWriter(file, columns, extrasaction='ignore')
            writer.writeheader()
            writer.writerows(rows)
        return self.path

    def test_rows_without_a_fault_are_read(self):
        rows = stress_plot.read(self.table(ROW, ROW | {'fault': 'slow host'}, ROW | {'outcome': 'guessing hung'},
                                           ROW | NOT_BY_HAND | {'cores': [2, 1], 'isa': ['best', 'scalar']}))
        self.assertEqual([row['inequality'] for row in rows], [4.0, 10 * 1.8 / (40 / 8)])
        self.assertEqual([rows[0][key] for key in (CHOSEN, BEST, 'guessing_of_expected')], [6.1, 6.4, 1.1])
        self.assertEqual(rows[1][CHOSEN], '')

    def test_other_tables_are_named(self):
        for path, said in ((self.table(ROW, columns=COLUMNS[:5]), 'stress.csv is not a table of launch/stress; name a table of'),
                           (self.table(), 'stress.csv is not a table of launch/stress'),
                           (self.table(ROW | {'fault': 'stalled link'}), 'stress.csv has no cluster without a fault'),
                           (self.table(ROW | {'cpu': '[10'}), 'stress.csv is damaged in the row of seed 1'),
                           (self.table(ROW | {'cpu': [10]}), 'stress.csv is damaged in the row of seed 1'),
                           (self.table(ROW | {BEST: 'n0'}), 'stress.csv is damaged in the row of seed 1')):
            with self.assertRaisesRegex(Problem, said):
                stress_plot.read(path)

    def test_table_is_drawn(self):
        if not importlib.util.find_spec('matplotlib'):
            self.skipTest('matplotlib is not installed')
        for row in ROW, ROW | NOT_BY_HAND:
            path = self.table(row, row | {'seed': 2, 'cpu': [20, 20]})
            done = subprocess.run([sys.executable, ROOT / 'launch/plot', path], capture_output=True, text=True, timeout=200)
            self.assertEqual((done.returncode, done.stdout), (0, f'{path.parent}: stress (.png and .svg)\n'), done.stderr)
            drawn = path.with_suffix('.svg').read_text()
            self.assertIn('chosen against best' if row[CHOSEN] else 'guessing against iterative', drawn)


if __name__ == '__main__':
    unittest.main()
