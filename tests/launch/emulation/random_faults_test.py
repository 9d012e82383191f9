"""launch/faults distinguishes right outcomes from wrong ones, and some of its faults have right outcomes. The latter is skipped, with the
reason, if no hosts can be emulated. Exit code 77: skipped."""
import argparse
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

from support import ROOT, main, script, some

os.environ['YAMATA_LINK_RETURN_S'] = '10'
faults, stress = script('faults'), script('stress')


def scenario(kind, rank=1, moment='text', ranks=3):
    made = faults.Scenario(1)
    made.kind, made.rank, made.moment, made.ranks, made.drafts = kind, rank, moment, ranks, rank == ranks - 1
    return made


SILENT = 'yamata: rank 1 (n1) has been silent for 3 s: it is stopped, dead or cut off\n'


class Seeds(unittest.TestCase):
    def test_numbers_and_ranges_are_read_and_others_refused(self):
        self.assertEqual(faults.seeds_of('1-3,7'), [1, 2, 3, 7])
        self.assertEqual(faults.seeds_of('0'), [0])
        for text in ('abc', '0-', '-3', '5-4', '', '1,,2'):
            with self.assertRaisesRegex(argparse.ArgumentTypeError, 'is no seed and no range of seeds; write a list such as'):
                faults.seeds_of(text)


class Verdicts(unittest.TestCase):
    def assert_right(self, *end):
        self.assertEqual(faults.wrong(*end), '')

    def assert_wrong(self, what, *end):
        self.assertIn(what, faults.wrong(*end))

    def test_seed_decides_everything(self):
        self.assertEqual(vars(faults.Scenario(5)), vars(faults.Scenario(5)))
        self.assertEqual({faults.Scenario(seed).kind for seed in range(200)}, set(faults.KINDS))
        self.assertFalse(any(faults.Scenario(seed).kind in faults.ONLY_ON_HOSTS for seed in range(200)
                             if faults.Scenario(seed).place == 'here'))

    def test_lost_rank_is_named_in_one_line(self):
        self.assert_right(scenario('stop rank'), 3, 'noise\n' + SILENT, False)
        self.assert_right(scenario('stop rank', 0), 3, 'yamata: rank 1 (n1): rank 0 has been silent for 3 s\n', False)
        self.assert_wrong('another than rank 1', scenario('stop rank'), 3, 'yamata: rank 1 (n1): rank 0 has been silent for 3 s\n', False)
        self.assert_wrong('2 lines', scenario('stop rank'), 3, SILENT * 2, False)
        self.assert_wrong('0 lines', scenario('stop rank'), 3, '', False)
        self.assert_wrong('exit code 205', scenario('stop rank'), 205, SILENT, False)
        self.assert_right(scenario('stop guard', 0), 0, '', True)  # it was stopped after the last token
        self.assert_wrong('without the whole text', scenario('stop guard', 0), 0, '', False)
        self.assert_wrong('another than rank 0', scenario('stop guard', 0), 0, 'yamata: rank 1 (n1) did not answer\n', True)

    def test_lost_drafter_costs_no_text(self):
        self.assert_right(scenario('kill rank', 2), 0, 'yamata: warning: rank 2 (n2) was killed by signal 9\n', True)
        self.assert_wrong('without the whole text', scenario('kill rank', 2), 0, '', False)
        killed = 'yamata: rank 2 (n2) was killed by signal 9\n'
        self.assert_wrong('only a drafter', scenario('kill rank', 2), 3, killed, False)
        self.assert_wrong('only a drafter', scenario('kill rank', 2), 3,
                          f'{killed}yamata: warning: the text goes on without the drafter on rank 2: x\n', True)
        self.assert_right(scenario('kill rank', 2), 3, killed, True)  # it was killed after all of the text
        self.assert_right(scenario('kill rank', 2, 'start'), 3, 'yamata: rank 2 (n2) was killed by signal 9\n', False)

    def test_request_is_followed_without_complaint(self):
        self.assert_right(scenario('interrupt'), 1, '', False)
        self.assert_wrong('after a request', scenario('interrupt'), 3, '', False)
        self.assert_wrong('after a request', scenario('terminate'), 1, SILENT, False)


class Refused(unittest.TestCase):
    def test_program_that_fails_before_any_fault_is_quoted_in_a_line(self):
        for flags, line in ((['--device', 'foo'], "yamata: --units: 'foo' is no unit; "), (['-n', '99999999999'], 'yamata: -n: ')):
            with self.subTest(flags=flags):
                done = subprocess.run([ROOT / 'launch' / 'faults', '--here', '--seeds', '1', *flags], capture_output=True, text=True)
                self.assertEqual((done.returncode, done.stdout), (1, ''), done.stderr)
                self.assertTrue(done.stderr.splitlines()[-1].startswith(f'faults: {line}'), done.stderr)
                self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)

    def test_table_that_cannot_be_written_is_named_in_a_line(self):
        with unittest.mock.patch.object(sys, 'argv', ['faults']), \
                self.assertRaisesRegex(SystemExit, r'^faults: /dev/full cannot be written \(No space left on device\); choose another'):
            faults.write_table('/dev/full', ['seed'], [{'seed': 1}])

    def test_models_that_cannot_be_made_are_told_in_a_line(self):
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / 'tales-target-0.3b.gguf.yamata-part').symlink_to(pathlib.Path(folder, 'absent', 'file'))
            done = subprocess.run([ROOT / 'launch' / 'stress', '--seeds', '1', '--models', folder], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr),
                         (1, f'stress: inflate: {folder}/tales-target-0.3b.gguf cannot be written (No such file or directory); '
                             'choose another place\n'))

    def test_faults_on_this_machine_need_no_iproute2(self):
        with tempfile.TemporaryDirectory() as empty, unittest.mock.patch.dict(os.environ, PATH=empty):
            faults.emulation.remains()


class Interrupted(unittest.TestCase):
    def test_exit_code_is_130(self):
        for module, part in ((faults, 'play_all'), (stress, 'Stress')):
            with self.subTest(part), unittest.mock.patch.object(module, part, side_effect=KeyboardInterrupt), \
                    unittest.mock.patch.object(sys, 'argv', ['script', *(['--here'] if module is faults else [])]):
                self.assertEqual(module.main(), 130)

    def test_closed_terminal_leaves_no_folder(self):
        with tempfile.TemporaryDirectory() as folder:
            process = subprocess.Popen([sys.executable, str(ROOT / 'launch' / 'faults'), '--here', '--seeds', '1-9'],
                                       stderr=subprocess.DEVNULL, env=dict(os.environ, TMPDIR=folder))
            while not any(name.startswith('yamata-faults-') for name in os.listdir(folder)):
                self.assertIsNone(process.poll())
            process.send_signal(signal.SIGHUP)
            self.assertEqual(process.wait(), 130)
            self.assertEqual(os.listdir(folder), [])


class Some(unittest.TestCase):
    def test_they_end_rightly(self):
        for flags in some(['--seeds', '4,9,33'], ['--seeds', '1,3,6,8,11'], ['--groups', '--seeds', '4']):
            with self.subTest(flags=flags):
                done = subprocess.run([ROOT / 'launch' / 'faults', *flags], stderr=subprocess.PIPE, text=True)
                self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == '__main__':
    main('some faults', Some)
