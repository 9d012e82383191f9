#!/usr/bin/env python3
"""Tests that every script for users explains itself with --help, refuses unknown arguments in one line, and ends with one line after
Ctrl-C."""
import os
import pathlib
import subprocess
import tempfile
import unittest

LAUNCH = pathlib.Path(__file__).resolve().parent.parent.parent.parent / 'launch'

# Ctrl-C while the arguments are read
INTERRUPTED = '''import argparse, signal
argparse.ArgumentParser.parse_known_args = lambda *_, **__: signal.raise_signal(signal.SIGINT)
'''
SILENT = {'emulate'}


def run(script, *arguments, **environment):
    return subprocess.run([script, *arguments], capture_output=True, text=True, stdin=subprocess.DEVNULL, env=os.environ | environment)


class Scripts(unittest.TestCase):
    def test_each_says_what_it_does(self):
        scripts = [path for path in sorted(LAUNCH.iterdir()) if path.is_file() and os.access(path, os.X_OK)]
        self.assertIn('stress', [path.name for path in scripts])
        for script in scripts:
            with self.subTest(script.name):
                done = run(script, '--help')
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertGreater(len(done.stdout.split()), 8, done.stdout)

    def test_unknown_words_are_refused_in_a_line(self):
        for script in ('test', 'install-packages', 'fuzz', 'get-model'):
            with self.subTest(script):
                done = run(LAUNCH / script, 'nonsense')
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
                self.assertEqual(done.stdout, '')

    def test_emulate_without_dashes_before_the_program_names_them(self):
        done = run(LAUNCH / 'emulate', '--hosts', '2', 'yamata', 'run', '-m', 'x.gguf')
        self.assertEqual(done.returncode, 1)
        self.assertIn('emulate: write -- before the program', done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)

    def test_ctrl_c_ends_with_130_and_no_traceback(self):
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / 'sitecustomize.py').write_text(INTERRUPTED)
            for script in (path for path in sorted(LAUNCH.iterdir()) if path.is_file() and 'python' in path.read_text().splitlines()[0]):
                with self.subTest(script.name):
                    done = run(script, PYTHONPATH=folder)
                    self.assertEqual((done.returncode, done.stderr),
                                     (130, '' if script.name in SILENT else f'{script.name}: interrupted\n'))


if __name__ == '__main__':
    unittest.main()
