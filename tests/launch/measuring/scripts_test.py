#!/usr/bin/env python3
"""Tests that every script for users explains itself with --help, and refuses unknown arguments in one line."""
import os
import pathlib
import subprocess
import unittest

LAUNCH = pathlib.Path(__file__).resolve().parent.parent.parent.parent / 'launch'


def run(script, *arguments):
    return subprocess.run([script, *arguments], capture_output=True, text=True, stdin=subprocess.DEVNULL)


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


if __name__ == '__main__':
    unittest.main()
