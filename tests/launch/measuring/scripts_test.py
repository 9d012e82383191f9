#!/usr/bin/env python3
"""Tests that every script for users explains itself with --help, refuses unknown arguments in one line, and ends with one line after
Ctrl-C."""
import ast
import fcntl
import itertools
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

LAUNCH = pathlib.Path(__file__).resolve().parent.parent.parent.parent / 'launch'

# a signal while the arguments are read
INTERRUPTED = '''import argparse, signal
argparse.ArgumentParser.parse_known_args = lambda *_, **__: signal.raise_signal(signal.{})
'''
# a signal while the script imports its modules, where Python would only print an exception and go on
INTERRUPTED_IMPORT = '''import signal, sys
class Signalled:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)
class Finder:
    def find_spec(self, name, *_):
        if name in ('emulation', 'measuring'):
            Signalled()
sys.meta_path.insert(0, Finder())
'''
# mpirun that runs until it is asked to end, and then writes its file
MPIRUN = '''set -e
file=$(sed 's/.*--json \\([^ ]*\\).*/\\1/' <<<"$*")
asked() { echo asked; echo {} >"$file"; echo written; exit 1; }
trap asked INT TERM HUP
echo started
while true; do sleep 0.05 || true; done
'''
SILENT = {'emulate'}


def run(script, *arguments, **environment):
    return subprocess.run([script, *arguments], capture_output=True, text=True, stdin=subprocess.DEVNULL, env=os.environ | environment)


def scripts():
    return [path for path in sorted(LAUNCH.iterdir()) if path.is_file() and os.access(path, os.X_OK)]


def head_of(script):
    """What the file says about itself: a module's docstring, or the comment at the beginning of a shell script."""
    text = script.read_text()
    if 'python' in text.splitlines()[0]:
        return ' '.join(ast.get_docstring(ast.parse(text)).split())
    lines = itertools.takewhile(lambda line: re.match('#(?!SBATCH)', line), text.splitlines()[1:])
    return ' '.join(' '.join(line[1:] for line in lines).split())


class Scripts(unittest.TestCase):
    def test_modules_hide_none_of_other_packages(self):
        others = {'cycler', 'dateutil', 'matplotlib', 'numpy', 'packaging', 'pyparsing', 'safetensors', 'six', 'torch'}
        own = {path.stem for folder in (LAUNCH, LAUNCH / 'python') for path in folder.iterdir() if path.is_dir() or path.suffix == '.py'}
        self.assertEqual(own & (others | set(sys.stdlib_module_names)), set())

    def test_each_says_what_it_does(self):
        self.assertIn('stress', [path.name for path in scripts()])
        for script in scripts():
            with self.subTest(script.name):
                done = run(script, '--help')
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertGreater(len(done.stdout.split()), 8, done.stdout)

    def test_help_has_all_that_the_head_of_the_file_says_and_one_usage(self):
        for script in scripts():
            with self.subTest(script.name):
                said = ' '.join(run(script, '--help').stdout.split())
                self.assertIn(head_of(script), said)
                self.assertEqual(said.count('usage:'), int('python' in script.read_text().splitlines()[0]))
                self.assertNotRegex(said, r'-- PROGRAM \[-- PROGRAM')

    def test_demo_refuses_what_it_sets_itself(self):
        for words in (['-n', '10', '--json', 'x'], ['--json=x'], ['-md', 'x'], ['-m', 'x'], ['--strategy=iterative'], ['--trace', 'x']):
            done = run(LAUNCH / 'demo', *words)
            flag = words[-1].split('=')[0] if len(words) == 1 else words[-2]
            self.assertEqual((done.returncode, done.stdout), (1, ''))
            self.assertTrue(done.stderr.startswith(f'launch/demo: {flag} is set by the demonstration itself'), done.stderr)
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)

    def start_among_stubs(self, script, folder, texts, *words):
        """Starts a copy of a script, in a folder where the programs that it calls are stubs, with `texts` or empty."""
        for name in ('launch/install-packages', 'launch/check-house', 'bin/cmake', 'bin/ctest', 'bin/mpirun'):
            stub = pathlib.Path(folder, name)
            stub.parent.mkdir(exist_ok=True)
            stub.write_text(f'#!/usr/bin/env bash\n{texts.get(name, "")}')
            stub.chmod(0o755)
        for name in (script, 'program/build_lock.sh'):
            pathlib.Path(folder, 'launch', name).parent.mkdir(exist_ok=True)
            shutil.copy(LAUNCH / name, f'{folder}/launch/{name}')
        process = subprocess.Popen([f'{folder}/launch/{script}', *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   start_new_session=True, env=os.environ | {'PATH': f'{folder}/bin:{os.environ["PATH"]}'})
        self.addCleanup(process.kill)
        return process

    def test_one_builds_in_a_folder_and_others_wait_with_a_line(self):
        for script in ('demo', 'test'):
            with self.subTest(script), tempfile.TemporaryDirectory() as folder:
                build = pathlib.Path(folder, 'build')
                build.mkdir()
                held = os.open(build, os.O_RDONLY)
                fcntl.flock(held, fcntl.LOCK_EX)
                process = self.start_among_stubs(script, folder, {'bin/cmake': 'echo cmake >&2', 'bin/mpirun': 'exit 9'})
                self.assertEqual(process.stderr.readline(), 'another build of this folder is going on; waiting\n')
                os.close(held)
                self.assertIn('cmake\n', process.communicate(timeout=60)[1])
                held = os.open(build, os.O_RDONLY)
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.close(held)

    def test_groups_of_tests_and_kinds_of_build_are_chosen_by_their_names(self):
        for words, build, says in (([], 'build', '--label-exclude ^thorough$ ;'), (['all'], 'build', ' ;1'),
                                   (['faults', 'asan'], 'build-asan', '--label-regex ^faults$ ;1'),
                                   (['tsan'], 'build-tsan', '--label-exclude ^thorough$ ;')):
            with self.subTest(words), tempfile.TemporaryDirectory() as folder:
                process = self.start_among_stubs('test', folder, {'bin/ctest': 'echo "$*" ";$YAMATA_THOROUGH"'}, *words)
                out, err = process.communicate(timeout=60)
                self.assertRegex(out, rf'^--test-dir {build} --output-on-failure --no-tests=error -j \d+ ?{re.escape(says)}\n$', err)

    def test_slurm_starts_ranks_with_srun_if_it_has_pmix(self):
        for plugin, launcher in ('pmix', 'srun --mpi=pmix'), ('pmi2', 'mpirun --map-by node --bind-to none'):
            with self.subTest(plugin), tempfile.TemporaryDirectory() as folder:
                for name in 'srun', 'mpirun':
                    stub = pathlib.Path(folder, name)
                    stub.write_text(f'#!/bin/sh\n[ "$1" = --mpi=list ] && echo none {plugin} || echo {name} "$@"\n')
                    stub.chmod(0o755)
                done = run(LAUNCH / 'slurm', 'run', '-n', '1', PATH=f'{folder}:{os.environ["PATH"]}', SLURM_JOB_ID='1',
                           SLURM_SUBMIT_DIR=folder, YAMATA='program')
                self.assertEqual(done.stdout, f'{launcher} program run -n 1\n', done.stderr)

    def test_words_that_name_no_tests_are_refused_in_a_line(self):
        for words, says in ((['fault'], "'fault' is no kind of build and no group of tests"), (['asan', 'tsan'], "'tsan' is too much"),
                            (['asan', 'faults', 'all'], "'all' is too much; one group at a time")):
            done = run(LAUNCH / 'test', *words)
            self.assertEqual((done.returncode, done.stdout), (1, ''))
            self.assertTrue(done.stderr.startswith(f'launch/test: {says}'), done.stderr)
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)

    def test_demo_that_gets_a_signal_ends_its_job_once_as_ctrl_c_does(self):
        for send, number in itertools.product((os.kill, os.killpg), (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)):
            with self.subTest(send=send, number=number), tempfile.TemporaryDirectory() as folder:
                demo = self.start_among_stubs('demo', folder, {'bin/mpirun': MPIRUN})
                self.assertEqual(demo.stdout.readline(), 'started\n')
                send(demo.pid, number)
                out, err = demo.communicate(timeout=60)
                self.assertEqual((demo.returncode, out), (130, 'asked\nwritten\n'), err)

    def test_unknown_words_are_refused_in_a_line(self):
        for script, *words in (['test', 'nonsense'], ['install-packages', 'nonsense'], ['fuzz', 'nonsense'], ['get-model', 'nonsense'],
                               ['test', 'asan', 'tsan'], ['fuzz', '1', 'gguf', 'wire'], ['get-model', 'smollm2', 'nonsense'],
                               ['install-packages', '--gguf', '--plots'], ['package'], ['package', 'nonsense'], ['package', 'deb', 'mips'],
                               ['package', 'deb', 'amd64', 'nonsense']):
            with self.subTest(script, words=words):
                done = run(LAUNCH / script, *words)
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
                self.assertEqual(done.stdout, '')

    def test_unknown_flags_are_refused_in_a_line(self):
        for script in scripts():
            if 'python' in script.read_text().splitlines()[0]:
                with self.subTest(script.name):
                    done = run(script, '--nonsense')
                    self.assertEqual((done.returncode, done.stdout), (1, ''))
                    self.assertRegex(done.stderr, rf'^{script.name}: .*; see launch/{script.name} --help\n$')

    def test_a_long_flag_with_one_dash_names_the_right_one(self):
        for words, flag in ((['emulate', '-hosts', '2', '--', 'true'], '-hosts'), (['stress', '-seeds=1'], '-seeds'),
                            (['train-heads', 'dgf', '-features', 'x'], '-features'), (['plot', '-help'], '-help')):
            done = run(LAUNCH / words[0], *words[1:])
            self.assertEqual((done.returncode, done.stdout), (1, ''), done.stderr)
            self.assertTrue(done.stderr.startswith(f"{words[0]}: '{flag}' is no flag; write -{flag}; see "), done.stderr)

    def test_numbers_that_make_no_sense_are_refused_in_a_line(self):
        for script, flag, value, fault in (('faults', '-n', '-4', 'is less than 1'), ('stress', '-n', '0', 'is less than 1'),
                                           ('stress', '--deadline', '-1', 'is less than 1'),
                                           ('stress', '--deadline', 'inf', 'is not finite'),
                                           ('stress', '--least', 'nan', 'is not finite'), ('gpu-check', '--faults', '0', 'is less than 1'),
                                           ('gpu-check', '--minutes', '-1', 'is less than 0'), ('inflate', '--dim', '0', 'is less than 1'),
                                           ('draw-trace', '--to', 'inf', 'is not finite'), ('draw-trace', '--to', '-1', 'is less than 0')):
            with self.subTest(script, flag=flag):
                done = run(LAUNCH / script, f'{flag}={value}')
                self.assertEqual((done.returncode, done.stderr),
                                 (1, f'{script}: argument {flag}: {value} {fault}; see launch/{script} --help\n'))

    def test_a_kind_of_heads_refuses_unknown_flags_in_a_line(self):
        for flag, value, fault in (('--steps', '0', 'is less than 1'), ('--seed', '4294967296', 'is not between 0 and 4294967295')):
            done = run(LAUNCH / 'train-heads', 'dgf', '-m', 'a', '-f', 'b', '-o', 'c', flag, value)
            self.assertEqual((done.returncode, done.stderr),
                             (1, f'train-heads: argument {flag}: {value} {fault}; see launch/train-heads dgf --help\n'))

    def test_get_model_lists_the_models(self):
        for words in ([], ['tinyllama']):
            done = run(LAUNCH / 'get-model', *words)
            self.assertRegex(done.stderr, r"^get-model: (there is no model 'tinyllama'; )?name one: smollm2 \(.*\)\n$")
            self.assertEqual('tinyllama' in done.stderr, bool(words))

    def test_emulate_without_dashes_before_the_program_names_them(self):
        done = run(LAUNCH / 'emulate', '--hosts', '2', 'yamata', 'run', '-m', 'x.gguf')
        self.assertEqual(done.returncode, 1)
        self.assertIn('emulate: write -- before the program', done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)

    def test_ctrl_c_and_a_closed_terminal_end_with_130_and_no_traceback(self):
        scripts = [path for path in sorted(LAUNCH.iterdir()) if path.is_file() and 'python' in path.read_text().splitlines()[0]]
        for number, script in itertools.product(('SIGINT', 'SIGHUP'), scripts):
            with tempfile.TemporaryDirectory() as folder:
                (pathlib.Path(folder) / 'sitecustomize.py').write_text(INTERRUPTED.format(number))
                with self.subTest(script.name, number=number):
                    done = run(script, PYTHONPATH=folder)
                    self.assertEqual((done.returncode, done.stderr),
                                     (130, '' if script.name in SILENT else f'{script.name}: interrupted\n'))

    def test_output_that_cannot_be_written_is_a_line_and_exit_code_2(self):
        for script, unbuffered in itertools.product(scripts(), ('', '1')):
            if 'python' in script.read_text().splitlines()[0]:
                with self.subTest(script.name, unbuffered=unbuffered), open('/dev/full', 'w') as full:
                    done = subprocess.run([script, '--help'], stdout=full, stderr=subprocess.PIPE, text=True,
                                          env=os.environ | {'PYTHONUNBUFFERED': unbuffered})
                    self.assertEqual(done.returncode, 2, done.stderr)
                    self.assertRegex(done.stderr, rf'^{script.name}: standard output: No space left on device; [^\n]*\n$')

    def test_folder_or_program_that_does_not_exist_is_named_in_a_line(self):
        with tempfile.TemporaryDirectory() as folder:
            absent = f'{folder}/absent'
            for words in (['check-house', absent], ['nvcc-kernels', '--nvcc', absent]):
                done = run(LAUNCH / words[0], *words[1:])
                self.assertEqual((done.returncode, done.stdout), (2, ''), done.stderr)
                self.assertRegex(done.stderr, rf'^{words[0]}: {absent}: No such file or directory; [^\n]*\n$')
            done = run(LAUNCH / 'check-house', folder)
            self.assertEqual((done.returncode, done.stderr), (1, f'check-house: {folder} is no git repository; name one\n'))

    def test_ctrl_c_while_modules_are_imported_ends_without_a_traceback(self):
        for script in scripts():
            if not re.search('^ *from (emulation|measuring)', script.read_text(), re.M):
                continue
            with self.subTest(script.name), tempfile.TemporaryDirectory() as folder:
                (pathlib.Path(folder) / 'sitecustomize.py').write_text(INTERRUPTED_IMPORT)
                done = run(script, '--help', PYTHONPATH=folder)
                self.assertIn(done.returncode, (-signal.SIGINT, 130))
                self.assertEqual((done.stdout, done.stderr), ('', ''))


if __name__ == '__main__':
    unittest.main()
