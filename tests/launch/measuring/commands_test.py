"""Tests commands that launch/experiment runs before the runs of yamata."""
import json
import subprocess
import unittest

from scene import ROOT, Folder, strategies


class Commands(Folder):
    def test_other_commands_run_once_before_the_runs_which_may_read_their_files(self):
        toml = strategies('pipeinfer').replace('"--strategy", "pipeinfer"', '"--strategy", "pipeinfer", "--tree", "{results}/rates.json"')
        toml += '[commands.rates]\nflags = ["acceptance", "-f", "{results}/x"]\n'
        self.assertEqual(self.run_to_end(toml), 0, self.said)
        self.assertEqual(self.calls(), ['acceptance'] + ['pipeinfer'] * 3)
        words = json.loads((self.path / 'out/commands/rates.json').read_text())
        self.assertEqual(words[:4], ['acceptance', '-m', 'target', '-f'])
        self.assertTrue(words[4].endswith('/commands/x'), words)
        self.assertEqual(self.run_to_end(toml), 0, self.said)
        self.assertEqual(len(self.calls()), 4)
        said = subprocess.run([ROOT / 'launch/experiment', '--summary', 'out'], cwd=self.path, capture_output=True, text=True).stdout
        self.assertIn('rates:\n\n```\nthe rates\n```\n', said)
        self.assertEqual(self.run_to_end(toml.replace('/x"', '/y"'), '--extend'), 1)
        self.assertIn('is of another command', self.said)

    def test_another_command_that_fails_ends_the_experiment(self):
        toml = strategies('pipeinfer') + '[commands.rates]\nflags = ["acceptance", "--bad"]\n'
        self.assertEqual(self.run_to_end(toml), 3)
        self.assertIn('experiment: commands.rates: exit code 2: yamata: there are no rates', self.said)
        self.assertEqual(self.calls(), ['acceptance'])
        simulate = toml.replace('["acceptance", "--bad"]', '["simulate", "--ranks", "4"]')
        self.assertEqual(self.run_to_end(simulate, '--out', 'other'), 0, self.said)
        self.assertEqual(json.loads((self.path / 'other/commands/rates.json').read_text())[:3], ['simulate', '--ranks', '4'])
        with_model = simulate.replace('[commands.rates]', '[commands.rates]\nmodel = "m"')
        self.assertEqual(self.run_to_end(with_model, '--out', 'third'), 1)
        self.assertIn('commands.rates: simulate needs no model; leave it out', self.said)
        for flags, said in (('["run"]', 'begin with acceptance, profile or simulate'), ('["profile", "--json", "x"]', '--json is given by'),
                            ('5', 'give a list of words')):
            self.assertEqual(self.run_to_end(toml.replace('["acceptance", "--bad"]', flags), '--out', 'other'), 1, flags)
            self.assertIn(said, self.said)


if __name__ == '__main__':
    unittest.main()
