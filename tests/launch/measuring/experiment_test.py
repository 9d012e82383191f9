"""Tests launch/experiment with a small script in place of yamata."""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import unittest
import unittest.mock

from scene import ROOT, Folder, strategies
from measuring import failure, results, summary


class Running(Folder):
    def test_a_row_holds_configuration_figures_memory_and_command(self):
        self.assertEqual(self.run_to_end(strategies('pipeinfer')), 0, self.said)
        row = self.rows()[0]
        for key, value in {'strategy': 'pipeinfer', 'kind': 'prose', 'repeat': '0', 'decode_tokens_per_s': '109', 'rss_bytes_max': '20',
                           'mapped_bytes_per_rank': '7;5', 'busy_share_mean': '0.375', 'yamata_version': '9.9', 'error': '',
                           'same_text': 'reference'}.items():
            self.assertEqual(row[key], value, key)
        self.assertIn('--strategy pipeinfer --json', row['command'])
        self.assertTrue(row['cpu'] and row['cores'] and row['kernel'] and row['date'])
        self.assertNotIn('text', row)

    def test_another_text_is_told(self):
        self.assertEqual(self.run_to_end(strategies('pipeinfer', 'other')), 3)
        self.assertEqual({(row['strategy'], row['same_text']) for row in self.rows()},
                         {('pipeinfer', 'reference'), ('pipeinfer', 'yes'), ('other', 'no')})

    def test_texts_of_typical_acceptance_are_compared_with_those_of_the_same_guesses(self):
        toml = strategies('pipeinfer').replace('repeats = 3', 'repeats = 2')
        for name in 'other', 'third':
            toml += f'{name} = ["--strategy", "{name}", "--acceptance", "typical"]\n'
        self.assertEqual(self.run_to_end(toml), 0, self.said)
        self.assertEqual(sorted((row['strategy'], row['same_text']) for row in self.rows()),
                         [(name, same) for name in ('other', 'pipeinfer', 'third') for same in ('reference', 'yes')])

    def test_a_failed_run_is_a_row_and_can_be_made_again(self):
        self.assertEqual(self.run_to_end(strategies('fail', 'pipeinfer')), 3)
        self.assertEqual([row['error'] for row in self.rows() if row['strategy'] == 'fail'],
                         ['exit code 2: yamata: the model is gone; bring it back'] * 3)
        self.run_to_end(strategies('fail', 'pipeinfer'))
        self.assertEqual(len(self.calls()), 6)
        self.run_to_end(strategies('fail', 'pipeinfer'), '--retry-failed')
        self.assertEqual(self.calls()[6:], ['fail'] * 3)
        self.assertEqual(len(self.rows()), 6)

    def test_a_hung_run_costs_its_deadline_and_leaves_nothing_behind(self):
        toml_of_60_s = strategies('hang', 'pipeinfer').replace('repeats = 3', 'repeats = 1')
        for deadline_s in (0.5, 2, 8, 32):  # on a busy machine, the program may need longer to start
            toml = toml_of_60_s.replace('deadline_s = 60', f'deadline_s = {deadline_s}')
            self.assertEqual(self.run_to_end(toml, '--extend', '--retry-failed'), 3)
            if (self.path / 'pids').exists():
                break
        rows = {row['strategy']: row for row in self.rows()}
        self.assertEqual(rows['hang']['error'], f'killed at its deadline of {deadline_s:g} s')
        self.assertLess(float(rows['hang']['wall_s']), 60)
        for pid in self.wait_for('pids'):
            self.assertFalse(os.path.exists(f'/proc/{pid}/exe') and os.readlink(f'/proc/{pid}/exe'), pid)

    def test_another_program_runs_between_and_is_read_by_its_words(self):
        toml = strategies('pipeinfer') + '[programs.peer]\n' \
            'command = "./fake --strategy {target}{tokens} --json /dev/null -f {prompt_file}"\n' \
            "tokens_per_s = 'speed: ([0-9.]+) tokens'\n"
        self.assertEqual(self.run_to_end(toml), 0, self.said)
        self.assertEqual(self.calls()[:2], ['pipeinfer', 'target64'])
        self.assertEqual({row['decode_tokens_per_s'] for row in self.rows() if row['strategy'] == 'peer'}, {'50.5'})

    def test_a_prompt_reaches_the_program_as_it_is(self):
        self.run_to_end(strategies('pipeinfer'))
        name = self.rows()[0]['run'] + '.txt'
        self.assertEqual((self.path / 'out' / 'runs' / name).read_text(), 'A king, "old"\nand wise')

    def test_a_second_turn_follows_the_answer_to_the_first(self):
        (self.path / 'q.jsonl').write_text('{"question_id": 7, "turns": ["one {answer}", "two {prompt}"]}\n{"turns": ["alone"]}\n')
        toml = strategies('fail', 'pipeinfer', 'other') + '[prompts.q]\nfile = "q.jsonl"\nformat = "<{}>"\n' \
            'second_turn = "{prompt}{answer}<{question}>"\n'
        self.assertEqual(self.run_to_end(toml), 3)
        second = [row for row in self.rows() if row['prompt'] == 'q-7-2']
        self.assertEqual({row['strategy']: row['same_text'] for row in second if row['repeat'] == '1'},
                         {'fail': '', 'pipeinfer': 'yes', 'other': 'no'})
        for row in second:
            self.assertEqual((self.path / 'out/runs' / f'{row["run"]}.txt').read_text(), '<one {answer}>no,\n"column"<two {prompt}>')
        self.assertEqual(len({row['prompt'] for row in self.rows()}), 4, 'king, both turns, and the question with one turn')
        done = len(self.rows())
        self.run_to_end(toml.replace('["--strategy", "other"]', '["--strategy", "later"]').replace('other', 'later'), '--extend')
        self.assertEqual({row['same_text'] for row in self.rows()[done:]}, {'yes'}, 'answers of earlier rows are known')

    def test_a_second_turn_without_an_answer_is_a_failed_row(self):
        (self.path / 'q.jsonl').write_text('{"turns": ["one", "two"]}\n')
        toml = strategies('fail') + '[prompts.q]\nfile = "q.jsonl"\nsecond_turn = "{prompt}{answer}{question}"\n'
        self.assertEqual(self.run_to_end(toml), 3)
        self.assertEqual({row['error'] for row in self.rows() if row['prompt'] == 'q-1-2'}, {'q-1 has no answer'})


class DamagedRow(Folder):
    def test_it_is_named_with_its_line_and_nothing_is_written(self):
        self.assertEqual(self.run_to_end(strategies('a')), 0, self.said)
        table = self.path / 'out' / 'results.csv'
        whole = table.read_text()
        for text, fault in ((whole + 'garbage\n', 'line 5 is damaged: it has fewer columns than the first line'),
                            (whole + whole.splitlines()[1] + ',more\n', 'line 5 is damaged: it has more columns than the first line'),
                            (whole.replace(',101,', ',fast,', 1), "line 2 is damaged: decode_tokens_per_s is 'fast'")):
            table.write_text(text)
            for words in (['plot', 'out'], ['experiment', '--summary', 'out'], ['experiment', 'e.toml', '--out', 'out']):
                done = subprocess.run([ROOT / 'launch' / words[0], *words[1:]], cwd=self.path, capture_output=True, text=True)
                self.assertEqual((done.returncode, done.stdout), (2, ''), done.stderr)
                self.assertRegex(done.stderr, rf'^{words[0]}: \S*out/results.csv: {fault}; correct the line, or remove it [^\n]*\n$')
                self.assertEqual(table.read_text(), text)


class LargeFile(Folder):
    def test_it_is_named_if_the_memory_is_short(self):
        (self.path / 'out').mkdir()
        files = [self.path / name for name in ('large.json', 'large.gguf', 'large.safetensors', 'out/results.csv')]
        for path in files:
            path.touch()
            os.truncate(path, 3 << 30)
        shape = ['--shape', '0.1b']
        for words in (['plot', 'large.json'], ['plot', 'out'], ['draw-trace', 'large.json', 'z.svg'],
                      ['plot-roofline', 'large.json', '-o', 'z.svg'], ['experiment', 'large.json'], ['experiment', '--summary', 'out'],
                      ['inflate', 'large.gguf', 'z', *shape], ['inflate', 'large.safetensors', 'z', *shape]):
            with self.subTest(words):
                done = subprocess.run(['sh', '-c', 'ulimit -v 2000000; exec "$0" "$@"', ROOT / 'launch' / words[0], *words[1:]],
                                      cwd=self.path, capture_output=True, text=True)
                self.assertEqual(done.returncode, 1 if words == ['experiment', 'large.json'] else 2, done.stderr)
                self.assertRegex(done.stderr, rf'^{words[0]}: \S+ cannot be read \(not enough memory\); name [^\n]*\n$')


class FullDisk(Folder):
    """Files that cannot be written are named in one line, whatever was going on."""

    def refused(self, *words):
        self.assertEqual(self.run_to_end(strategies('a')), 2, self.said)
        lines = [line for line in self.said.splitlines() if not line.startswith('[')]
        self.assertEqual(len(lines), 1, self.said)
        for word in ('experiment: ', *words):
            self.assertIn(word, lines[0])

    def test_copy_of_the_experiment_file(self):
        (self.path / 'out' / 'runs').mkdir(parents=True)
        (self.path / 'out' / 'lock').touch()
        (self.path / 'out' / 'experiment.toml.yamata-part').symlink_to('/dev/full')
        self.refused('out/experiment.toml cannot be written (No space left on device); free some space')
        self.assertFalse((self.path / 'calls').exists())
        self.assertEqual(os.listdir(self.path / 'out' / 'runs'), [])

    def test_prompt_and_output_of_a_run(self):
        self.assertEqual(self.run_to_end(strategies('a')), 0, self.said)
        runs = self.path / 'out' / 'runs'
        for suffix, words in (('.txt.yamata-part', ['.txt cannot be written (No space left on device)']),
                              ('.out', ['.out: Is a directory'])):
            (self.path / 'out' / 'results.csv').unlink(missing_ok=True)
            blocked = [path.with_suffix(suffix) for path in runs.glob('*.err')]
            for path in blocked:
                path.unlink(missing_ok=True)
                path.symlink_to('/dev/full') if suffix == '.txt.yamata-part' else path.mkdir()
            self.refused(*words)
            for path in blocked:
                path.rmdir() if path.is_dir() else path.unlink(missing_ok=True)

    def test_message_of_a_run_that_failed(self):
        toml = strategies('a') + '[programs.silent]\ncommand = "false"\ntokens_per_s = "(5)"\n'
        self.assertEqual(self.run_to_end(toml), 3, self.said)
        self.assertIn('exit code 1: no message', [row['error'] for row in self.rows()])
        (self.path / 'out' / 'results.csv').unlink()
        for path in (self.path / 'out' / 'runs').glob('*.err'):
            pathlib.Path(f'{path}.yamata-part').symlink_to('/dev/full')
        self.assertEqual(self.run_to_end(toml), 2, self.said)
        self.assertIn('.err cannot be written (No space left on device); free some space', self.said)
        self.assertFalse([row for row in self.rows() if row['error']], 'the run is made again')

    def test_standard_output(self):
        (self.path / 'e.toml').write_text(strategies('a'))
        with open('/dev/full', 'w') as full:
            done = subprocess.run([sys.executable, ROOT / 'launch' / 'experiment', 'e.toml', '--dry-run'], cwd=self.path, stdout=full,
                                  stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertTrue(done.stderr.startswith('experiment: standard output: No space left on device; '), done.stderr)
        self.assertEqual(done.stderr.count('\n'), 1, done.stderr)


class Resuming(Folder):
    def test_after_a_kill_no_row_is_lost_or_repeated(self):
        (self.path / 'gate').touch()
        toml = strategies('a', 'wait', 'b')
        process = self.start(toml)
        self.wait_for('gate')
        process.kill()
        process.communicate()
        self.assertEqual([row['strategy'] for row in self.rows()], ['a'])
        with open(self.path / 'out' / 'results.csv', 'a') as file:
            file.write('torn,row,without')
        (self.path / 'gate').unlink()
        self.assertEqual(self.run_to_end(toml), 0, self.said)
        runs = [row['run'] for row in self.rows()]
        self.assertEqual((len(runs), len(set(runs))), (9, 9))
        self.assertEqual(self.calls().count('a'), 3)

    def test_an_interrupt_leaves_cleanly(self):
        for number in signal.SIGINT, signal.SIGTERM, signal.SIGHUP:
            with self.subTest(number=number):
                (self.path / 'gate').write_text('')
                process = self.start(strategies('a', 'wait'))
                pid = self.wait_for('gate')[-1]
                process.send_signal(number)
                _, said = process.communicate()
                self.assertEqual(process.returncode, 130)
                self.assertIn('has 1 row;', said)
                self.assertIn('experiment: interrupted', said)
                self.assertNotIn('Traceback', said)
                self.assertFalse(os.path.exists(f'/proc/{pid}'))

    def test_an_interrupt_while_a_row_is_written_waits_for_it(self):
        store = results.Results(self.path / 'interrupted')
        fsync = os.fsync

        def interrupted(file):
            os.kill(os.getpid(), signal.SIGINT)
            fsync(file)
        for count in 1, 2:  # the file is written anew, or continued
            with self.assertRaises(KeyboardInterrupt), unittest.mock.patch.object(os, 'fsync', interrupted):
                store.append({'run': count})
            self.assertEqual(store.path.read_text().split(), ['run', *map(str, range(1, count + 1))])
            self.assertEqual(sorted(path.name for path in store.folder.iterdir()), ['lock', 'results.csv', 'runs'])
        store.close()

    def test_a_changed_file_is_refused_without_extend(self):
        self.run_to_end(strategies('a'))
        self.assertEqual(self.run_to_end(strategies('a', 'b')), 1)
        self.assertRegex(self.said, r'^experiment: \S+/out has the results of another experiment, or of e.toml before it was changed \(.*'
                                    r'; choose another folder with --out, or give --extend to keep [^\n]*\n$')
        self.assertEqual(len(self.rows()), 3)
        self.assertEqual(self.run_to_end('# a comment is no change\n' + strategies('a')), 0)
        self.assertEqual(self.run_to_end(strategies('a', 'b'), '--extend'), 0)
        self.assertEqual(self.calls(), ['a'] * 3 + ['b'] * 3)

    def test_a_name_that_means_something_else_is_refused_even_then(self):
        self.run_to_end(strategies('a'))
        self.assertEqual(self.run_to_end(strategies('a').replace('"a"]', '"b"]'), '--extend'), 1)
        self.assertIn('another command', self.said)

    def test_a_missing_host_file_is_named_before_the_first_run(self):
        self.assertEqual(self.run_to_end(strategies('a') + '[clusters.office]\nhostfile = "nofile"\n'), 1)
        self.assertEqual(self.said, 'experiment: e.toml: clusters.office: nofile does not exist; paths are relative to the folder where '
                                    'launch/experiment is started\n')
        self.assertFalse((self.path / 'calls').exists())

    def test_an_error_in_the_file_is_named_with_the_file_before_the_first_run(self):
        for wrong, line in (('[clusters.two]\nhosts = 2\nrate = "1gb"',
                             "clusters.two: --rate: '1gb' is no rate; write a number with one of the units kbit, mbit, gbit"),
                            ('[models.n]\ntarget = "absent"', 'models.n: absent does not exist; paths are relative to the folder where '
                             'launch/experiment is started'),
                            ('[sweep]\n"--draf" = [1]', "sweep: '--draf' is not a flag"),
                            ('[sweep]\n"-t" = [1]\n[strategies.b]\nflags = ["--draf"]', "strategies.b: '--draf' is not a flag")):
            self.assertEqual(self.run_to_end(strategies('a') + wrong), 1)
            self.assertEqual(self.said, f'experiment: e.toml: {line}\n')
            self.assertFalse((self.path / 'calls').exists() or (self.path / 'out').exists())

    def test_a_folder_in_place_of_a_file_is_told(self):
        (self.path / 'models').mkdir()
        a, folder = strategies('a'), 'models is a folder, not a model file; name a file in it'
        for toml, line in ((a.replace('"target"', '"models"'), f'models.m: {folder}'),
                           (a.replace('"draft"', '["draft", "models"]'), f'models.m: {folder}'),
                           (a.replace('"target"', '"/dev/null"'), 'models.m: /dev/null is no regular file; name a model file'),
                           (a.replace('"target"', f'"{"x" * 5000}"'), f'models.m: {"x" * 5000} does not exist; paths are relative to the '
                            'folder where launch/experiment is started'),
                           (a + '[clusters.h]\nhostfile = "models"', 'clusters.h: models is a folder, not a host file; name a file in it'),
                           (a.replace('"./fake"', '"models"'), 'models is not a program; build it (cmake --build --preset release), or '
                            'name it with yamata = "..."')):
            self.assertEqual(self.run_to_end(toml), 1, self.said)
            self.assertEqual(self.said, f'experiment: e.toml: {line}\n')

    def test_a_program_that_cannot_be_started_is_told(self):
        (self.path / 'noise').write_text('\x7fno program')
        (self.path / 'noise').chmod(0o755)
        self.assertEqual(self.run_to_end(strategies('a').replace('./fake', './noise')), 1)
        self.assertEqual(self.said, 'experiment: e.toml: ./noise cannot be started (Exec format error); build it (cmake --build --preset '
                                    'release), or name it with yamata = "..."\n')

    def test_a_command_without_a_program_is_refused_with_and_without_a_dry_run(self):
        for command, named in (('""', 'programs.o: command is \'\'; '), ('"{launch}"', 'which names no program; '),
                               ('"echo \\u0000 5"', 'programs.o.command has a NUL character')):
            for flags in [], ['--dry-run']:
                self.assertEqual(self.run_to_end(f'{strategies("a")}[programs.o]\ncommand = {command}\n', *flags), 1)
                self.assertRegex(self.said, rf'^experiment: e.toml: [^\n]*{re.escape(named)}[^\n]*\n$')
                self.assertFalse((self.path / 'calls').exists() or (self.path / 'out').exists())

    def test_hosts_that_cannot_be_emulated_are_refused_before_the_first_run(self):
        with unittest.mock.patch.dict(os.environ, YAMATA_BUILD=str(self.path)):
            self.assertEqual(self.run_to_end(strategies('a') + '[clusters.slow]\nhosts = 2\n'), 1)
        self.assertIn('no hosts can be emulated', self.said)
        self.assertFalse((self.path / 'calls').exists())

    def test_a_baseline_of_another_kind_in_the_results_is_told(self):
        self.assertEqual(self.run_to_end(strategies('a')), 0, self.said)
        (self.path / 'out' / 'experiment.toml').write_text('baseline = ["a"]')
        done = subprocess.run([ROOT / 'launch' / 'experiment', '--summary', 'out'], cwd=self.path, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (1, ''))
        self.assertRegex(done.stderr, "^experiment: no row has the strategy '.*'; --baseline may be one of a\n$")

    def test_two_at_once_are_refused(self):
        (self.path / 'out').mkdir()
        holder = results.Results(self.path / 'out')
        self.addCleanup(holder.close)
        self.assertEqual(self.run_to_end(strategies('a')), 1)
        self.assertIn('another launch/experiment', self.said)


class Cause(unittest.TestCase):
    RULE = '-' * 74

    def test_it_is_a_line_that_names_the_error_and_no_advice(self):
        for text, line in (('mpirun: Error: unknown option "--nosuch"\nType \'mpirun --help\' for usage.\n',
                            'mpirun: Error: unknown option "--nosuch"'),
                           ("ls: unrecognized option '--x'\nTry 'ls --help' for more information.\n", "ls: unrecognized option '--x'"),
                           ("error: unexpected argument '-z'\n\nUsage: p [-x]\n\nFor more information, try '--help'.\n",
                            "error: unexpected argument '-z'"),
                           ("p: invalid option -- 'z'\nUsage: p [-x]\n  -x  a flag\n", "p: invalid option -- 'z'"),
                           ('usage: p [-x]\n         [-y]\np: error: unrecognized arguments: -z\n', 'p: error: unrecognized arguments: -z'),
                           ('loading\nyamata: warning: slow\nyamata: bad; mend it\nlast\n', 'yamata: bad; mend it'),
                           ('first\nlast\n', 'last'), ('Usage: p FILE\n', 'Usage: p FILE'), ('', '')):
            with self.subTest(text):
                self.assertEqual(failure.cause(text), line)

    def test_it_is_found_between_the_rules_of_mpirun(self):
        block = lambda *lines: '\n'.join([self.RULE, *lines, self.RULE, ''])
        slots = block('There are not enough slots available in the system to satisfy the 40',
                      'slots that were requested by the application:', '', '  true', '',
                      'Either request fewer slots for your application, or make more slots', 'available for use.')
        said = 'There are not enough slots available in the system to satisfy the 40 slots that were requested by the application: true'
        job = block('Primary job  terminated normally, but 1 process returned', 'a non-zero exit code.')
        killed = block('mpirun noticed that process rank 1 exited on signal 9 (Killed).')
        for text, line in ((slots, said), ('p: warning: odd\n' + slots, said), ('p: no such file\n' + job, 'p: no such file'),
                           (job + killed, 'mpirun noticed that process rank 1 exited on signal 9 (Killed).'),
                           (job, 'Primary job  terminated normally, but 1 process returned a non-zero exit code.')):
            with self.subTest(text):
                self.assertEqual(failure.cause(text), line)


class Summary(unittest.TestCase):
    def rows(self, *speeds):
        fixed = {key: '' for key in (*summary.PAIRED, 'kind', 'error', 'same_text')}
        return [{**fixed, 'strategy': strategy, 'repeat': repeat, 'decode_tokens_per_s': speed} for strategy, repeat, speed in speeds]

    def test_ratios_are_of_the_same_repeat(self):
        rows = self.rows(('base', 0, '10'), ('base', 1, '100'), ('fast', 0, '20'), ('fast', 1, '400'))
        self.assertEqual(summary.ratios([row for row in rows if row['strategy'] == 'fast'], rows, 'base'), [2, 4])

    def test_a_swept_baseline_is_compared_at_the_same_values(self):
        rows = self.rows(('whole', 0, '10'), ('whole', 0, '40'), ('part', 0, '20'))
        for row, value in zip(rows, ('1', '2', '2')):
            row['--draft'] = value
        self.assertEqual(summary.ratios(rows[2:], rows, 'whole'), [0.5])
        rows[2]['--draft'] = '4'
        self.assertEqual(summary.ratios(rows[2:], rows, 'whole'), [])
        rows[0]['--draft'] = ''  # a baseline that is not swept is compared with all rows
        self.assertEqual(summary.ratios(rows[2:], rows, 'whole'), [2])

    def test_table_has_a_row_per_configuration(self):
        rows = self.rows(('base', 0, '10'), ('base', 1, '20'), ('fast', 0, '20'), ('fast', 1, ''))
        rows[3]['error'] = 'killed'
        text = summary.table(rows, 'base')
        self.assertIn('| strategy | runs | failed | tokens/s | / base | same text |', text)
        self.assertIn('| base | 2 | 0 | 15 (10 to 20) | 1 (1 to 1) | - |', text)
        self.assertIn('| fast | 2 | 1 | 20 | 2 | - |', text)
        self.assertIn('1 × killed', text)
        for row, tokens in zip(rows, ('1', '1', '2.5', '')):
            row['tokens_per_target_run'] = tokens
        self.assertIn('| fast | 2 | 1 | 20 | 2 | 2.5 | - |', summary.table(rows, 'base'))


if __name__ == '__main__':
    unittest.main()
