#!/usr/bin/env python3
"""Tests the steps of launch/gpu-check, and what it finds out about a machine's GPUs."""
import argparse
import contextlib
import io
import json
import os
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent.parent
sys.path.insert(0, str(ROOT / 'launch/python'))
import start  # noqa: F401
from measuring import cuda
from measuring.gpu_papers import Papers
from common.problem import Problem
from measuring.steps import Steps, check_reports


def steps(folder, minutes=5):
    return Steps('check', folder, {'speed': 2, 'time': 10}, ('time',), minutes)


class WithFolder(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.temporary.name)
        self.addCleanup(self.temporary.cleanup)
        self.quiet = contextlib.ExitStack()
        self.said = self.quiet.enter_context(contextlib.redirect_stderr(io.StringIO()))
        self.quiet.enter_context(contextlib.redirect_stdout(io.StringIO()))
        self.addCleanup(self.quiet.close)

    def program(self, name, text):
        path = self.folder / name
        path.write_text('#!/bin/sh\n' + text)
        path.chmod(0o755)
        return path


class StepsTest(WithFolder):
    def test_what_a_command_says_is_returned(self):
        check = steps(self.folder)
        self.assertEqual(check.step('greets', ['sh', '-c', 'echo "$WORD"'], 60, WORD='hello'), 'hello\n')
        self.assertFalse(check.wrong())

    def test_failed_commands_are_wrong_and_quoted(self):
        absent = pathlib.Path(self.folder, 'absent')
        for command, code, text in ((['sh', '-c', 'echo why >&2; exit 3'], 3, 'why'), ([absent], 127, 'No such file')):
            check = steps(self.folder)
            self.assertIsNone(check.step('fails', command, 60))
            self.assertTrue(check.wrong())
            self.assertEqual(check.rows[-1]['exit_code'], code)
            self.assertIn(text, check.rows[-1]['output'])

    def test_what_has_no_time_is_left_out_and_not_wrong(self):
        check = steps(self.folder, minutes=0)
        self.assertIsNone(check.step('late', ['false'], 60))
        self.assertFalse(check.wrong())
        check.write(self.folder, 'title', {})
        self.assertIn('| late | left out: no time left | 0 |', (self.folder / 'check.md').read_text())

    def test_build_tells_every_tenth_and_what_failed(self):
        ninja = self.program('ninja', 'for i in $(seq 20); do echo "[$i/20] cc"; done; echo bad; exit 1\n')
        check = steps(self.folder)
        self.assertFalse(check.build('build', [ninja], 60))
        self.assertEqual(len(self.said.getvalue().splitlines()), 11)
        self.assertIn('bad', check.rows[-1]['output'])

    def test_report_has_goals_and_what_was_not_measured(self):
        check = steps(self.folder)
        check.figure('a', 'time', 11)
        check.figure('b', 'time', 12, 20)
        check.not_measured('speed', 'no engine')
        check.write(self.folder, 'title', {'card': 'x'})
        report = json.loads((self.folder / 'check.json').read_text())
        self.assertEqual([figure['reached'] for figure in report['figures']], [False, True])
        self.assertEqual(report['not_measured'], {'speed': 'no engine'})
        self.assertEqual(report['card'], 'x')
        self.assertFalse(check.wrong())

    def test_reports_replace_reports_alone(self):
        check_reports('check', self.folder)
        steps(self.folder).write(self.folder, 'title', {'card': 'x', 'probe': {}})
        check_reports('check', self.folder)
        for ending in ('json', 'md'):
            before = (self.folder / f'check.{ending}').read_text()
            (self.folder / f'check.{ending}').write_text('{"mine": 1}')
            with self.assertRaisesRegex(Problem, f'check.{ending} exists and is not a report of check'):
                check_reports('check', self.folder)
            (self.folder / f'check.{ending}').write_text(before)


class PapersTest(WithFolder):
    """With a program that writes what `run` does, and an upper limit of runs, as a limit of time would be."""

    RUN = {'decode_tokens_per_s': 5.0, 'tokens_per_target_run': 2.0, 'verify_s': 1.0, 'draft_s': 0.5, 'transfer_s': 0.0,
           'device_peak_bytes': 0, 'token_ids': [1, 2]}

    def papers(self, runs, other_text=''):
        """Measures at most so many runs; the text of a system whose flags contain `other_text` differs."""
        (self.folder / 'same.json').write_text(json.dumps(self.RUN))
        (self.folder / 'other.json').write_text(json.dumps(self.RUN | {'token_ids': [1, 3]}))
        (self.folder / 'left').write_text(str(runs))
        self.program('yamata', f"""cd {self.folder}
            for last in "$@"; do :; done
            case "$1" in run) ;; *) echo '{{}}' > "$last"; exit ;; esac
            left=$(cat left); [ "$left" -gt 0 ] || exit 9
            echo $((left - 1)) > left
            case "$*" in *"{other_text or 'no such flag'}"*) cp other.json "$last" ;; *) cp same.json "$last" ;; esac
            """)
        check = steps(self.folder)
        check.program = self.folder / 'yamata'
        papers = Papers(argparse.Namespace(device='emulated:0', minutes=5, emulated=True), check, self.folder)
        papers.take_up(self.folder, {'card': 'x'})
        papers.measure()
        papers.write(self.folder, 'title', {'card': 'x'})
        return papers

    def measured(self):
        figures = json.loads((self.folder / 'gpu-papers.json').read_text())['figures']
        return [row['system'] for row in figures if row['tokens_per_s']]

    def test_another_run_goes_on(self):
        self.papers(3)
        self.assertEqual(self.measured(), ['cpu', 'sequential', 'medusa'])
        self.assertIn('Not measured: tiny: dovetail', (self.folder / 'gpu-papers.md').read_text())
        self.assertFalse(self.papers(8).wrong())
        self.assertEqual(self.measured(),
                         ['cpu', 'sequential', 'medusa', 'ghidorah', 'dovetail', 'dovetail -ngl 2', 'dovetail, a draft model',
                          'offload -ngl 2', 'specexec -ngl 2', 'speculative', 'duodecoding'])
        self.assertNotIn('Not measured', (self.folder / 'gpu-papers.md').read_text())

    def test_another_text_is_wrong(self):
        papers = self.papers(11, '--preset dovetail')
        self.assertEqual([row['step'] for row in papers.rows if row['exit_code']],
                         [f'tiny: text of dovetail{which} is that of the CPU' for which in ('', ' -ngl 2', ', a draft model')])

    def test_reports_of_another_card_are_begun_anew(self):
        self.papers(3)
        report = json.loads((self.folder / 'gpu-papers.json').read_text())
        (self.folder / 'gpu-papers.json').write_text(json.dumps(report | {'card': 'y'}))
        self.papers(1)
        self.assertEqual(self.measured(), ['cpu'])


class Cuda(WithFolder):
    def with_smi(self, text):
        self.program('nvidia-smi', f"printf '{text}'\n")
        return mock.patch.dict(os.environ, {'PATH': f'{self.folder}:{os.environ["PATH"]}'})

    def test_card_of_the_device_that_is_named(self):
        with self.with_smi('NVIDIA H100 80GB HBM3, 9.0\\nNVIDIA GeForce RTX 4090, 8.9\\n'):
            self.assertEqual(cuda.card(), ('NVIDIA H100 80GB HBM3', '90'))
            self.assertEqual(cuda.card('cuda:1'), ('NVIDIA GeForce RTX 4090', '89'))

    def test_jetson_whose_tool_does_not_know(self):
        compatible = self.folder / 'compatible'
        compatible.write_bytes(b'nvidia,p3737-0000+p3701-0000\0nvidia,tegra234\0')
        self.assertEqual(cuda.jetson(compatible), ('Jetson Orin', '87'))
        self.assertIsNone(cuda.jetson(self.folder / 'none'))
        with self.with_smi('Orin (nvgpu), [N/A]\\n'), mock.patch.object(cuda, 'jetson', lambda: ('Jetson Orin', '87')):
            self.assertEqual(cuda.card(), ('Jetson Orin', '87'))

    def test_programs_beside_nvcc_are_found(self):
        self.program('nvcc', 'echo compute_87; echo compute_90\n')
        sanitizer = self.program('compute-sanitizer', '')
        with mock.patch.dict(os.environ, {'PATH': f'{self.folder}:/usr/bin:/bin'}):
            self.assertEqual(cuda.find_program('compute-sanitizer'), str(sanitizer))
            self.assertTrue(cuda.compiles_for('90'))
            self.assertFalse(cuda.compiles_for('103'))
            self.assertFalse(cuda.compiles_for(''))


if __name__ == '__main__':
    unittest.main()
