"""Tests launch/experiment with a small script in place of yamata."""
import csv
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import tomllib
import unittest
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent.parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / 'launch'))
from measuring import plan, results, summary  # noqa: E402
from measuring.problem import Problem  # noqa: E402

# Writes the JSON of a run. Strategies: hang never ends, has a child and ignores requests to end; fail crashes; others write different
# texts.
FAKE = f'''#!{sys.executable}
import json, os, signal, sys, time
if sys.argv[1] == '--version':
    sys.exit(print('yamata 9.9'))
value = lambda flag: sys.argv[sys.argv.index(flag) + 1]
strategy = value('--strategy')
print(strategy, file=open('calls', 'a'))
if strategy == 'wait' and os.path.exists('gate'):
    print(os.getpid(), file=open('gate', 'w'))
if strategy == 'hang' or strategy == 'wait' and os.path.exists('gate'):
    signal.signal(signal.SIGTERM, signal.SIG_IGN if strategy == 'hang' else signal.SIG_DFL)
    child = os.fork()
    if child:
        print(os.getpid(), child, file=open('pids', 'w'))
    time.sleep(600)
if strategy == 'fail':
    sys.exit(print('yamata: the model is gone; bring it back', file=sys.stderr) or 2)
ranks = [dict(rss_bytes=10, mapped_bytes=7, busy_s=1, wait_s=3), dict(rss_bytes=20, mapped_bytes=5, busy_s=1, wait_s=1)]
json.dump(dict(strategy=strategy, ranks=2, decode_tokens_per_s=100 + len(strategy), ttft_s=0.1, text='no,\\n"column"',
               token_ids=[1, 2 if strategy == 'other' else 3], per_rank=ranks), open(value('--json'), 'w'))
print('speed: 50.5 tokens per second')
'''

BASE = '''
yamata = "./fake"
repeats = 3
deadline_s = 60
[models.m]
target = "target"
draft = "draft"
[clusters.one]
ranks = 1
[prompts.king]
kind = "prose"
text = "A king, \\"old\\"\\nand wise"
[strategies]
'''


def strategies(*names):
    return BASE + ''.join(f'{name} = ["--strategy", "{name}"]\n' for name in names)


class Folder(unittest.TestCase):
    """A temporary folder with the fake program, two empty models, and a function that runs launch/experiment there."""

    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.path = pathlib.Path(temporary.name)
        (self.path / 'fake').write_text(FAKE)
        (self.path / 'fake').chmod(0o755)
        (self.path / 'target').touch()
        (self.path / 'draft').touch()

    def start(self, toml, *flags):
        (self.path / 'e.toml').write_text(toml)
        return subprocess.Popen([sys.executable, ROOT / 'launch' / 'experiment', 'e.toml', '--out', 'out', *flags], cwd=self.path,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def run_to_end(self, toml, *flags):
        process = self.start(toml, *flags)
        _, self.said = process.communicate()
        return process.returncode

    def rows(self):
        with open(self.path / 'out' / 'results.csv') as file:
            return list(csv.DictReader(file))

    def calls(self):
        return (self.path / 'calls').read_text().split()

    def wait_for(self, name):
        """Waits until the fake program has written the file."""
        while not (self.path / name).exists() or not (self.path / name).read_text().endswith('\n'):
            os.sched_yield()
        return (self.path / name).read_text().split()


class Plan(unittest.TestCase):
    def expand(self, toml):
        return list(plan.Plan(tomllib.loads(toml)).runs())

    def test_expansion_is_the_product_of_all_that_varies(self):
        toml = ('tokens = [8, 16]\n' + strategies('pipeinfer') + 'plain = { flags = [], sweep = false, draft = false }\n'
                '[sweep]\n"--draft" = [1, 2]\n"--no-cancel" = [false, true]\n')
        runs = self.expand(toml)
        self.assertEqual(len(runs), 3 * 2 * (4 + 1))  # repeats, tokens, swept configurations and one that is not swept
        self.assertEqual(len({run.id for run in runs}), len(runs))
        commands = {' '.join(run.command) for run in runs}
        self.assertTrue(any('-md draft' in c and '-n 16' in c and '--draft 2 --no-cancel --json' in c for c in commands))
        self.assertTrue(any('-md' not in c and '--draft' not in c and '-n 8' in c for c in commands))

    def test_each_repeat_holds_everything_once_and_begins_elsewhere(self):
        runs = self.expand(strategies('a', 'b', 'c'))
        names = [run.columns['strategy'] for run in runs]
        self.assertEqual([sorted(names[i:i + 3]) for i in (0, 3, 6)], [['a', 'b', 'c']] * 3)
        self.assertEqual(len({names[0], names[3], names[6]}), 3)

    def test_what_is_compared_stays_together(self):
        toml = strategies('a', 'b', 'c') + '[clusters.many]\nranks = [2, 3, 4]\n'
        setups = [(run.columns['cluster'], run.columns['repeat']) for run in self.expand(toml)]
        self.assertEqual(sum(one != next for one, next in zip(setups, setups[1:])), len(set(setups)) - 1)

    def test_clusters_become_launchers(self):
        toml = strategies('a') + '[clusters.many]\nranks = [2, 4]\n[clusters.hosts]\nhostfile = "h.txt"\n' \
            '[clusters.slow]\nhosts = 8\ncpu = 20\nrate = "1gbit"\ndelay = "0.1ms"\n[clusters.queue]\nslurm = true\nranks = 3\n'
        starts = {run.columns['cluster']: ' '.join(run.command).split(' ./fake')[0] for run in self.expand(toml)}
        self.assertEqual(starts['many-4'], 'mpirun --oversubscribe -np 4 --bind-to none')
        self.assertEqual(starts['hosts'], 'mpirun --hostfile h.txt --map-by node --bind-to none')
        self.assertEqual(starts['slow'], f'{ROOT}/launch/emulate --hosts 8 --cpu 20 --rate 1gbit --delay 0.1ms --')
        self.assertEqual(starts['queue'], 'srun -N 3 -n 3')

    def test_questions_are_taken_from_every_category_in_turn(self):
        with tempfile.NamedTemporaryFile('w', suffix='.jsonl') as file:
            file.write(''.join(f'{{"question_id": {i}, "category": "{c}", "turns": ["q {i}", "later"]}}\n' for i, c in enumerate('aabbc')))
            file.flush()
            toml = strategies('s') + f'[prompts.q]\nfile = "{file.name}"\nlimit = 3\ncategories = ["b", "a"]\n'
            prompts = plan.Plan(tomllib.loads(toml)).prompts
        self.assertEqual([(p.name, p.kind, p.text) for p in prompts[1:]], [('q-2', 'b', 'q 2'), ('q-0', 'a', 'q 0'), ('q-3', 'b', 'q 3')])

    def test_a_list_of_prompts_needs_no_more_than_texts_and_is_put_into_a_format(self):
        with tempfile.NamedTemporaryFile('w', suffix='.jsonl') as file:
            file.write('{"prompt": "one"}\n\n{"text": "two", "category": "c"}\n{"turns": ["three", "later"], "question_id": 7}\n')
            file.flush()
            toml = strategies('s') + f'[prompts.q]\nfile = "{file.name}"\nformat = "<user>{{}}<model>"\n'
            prompts = plan.Plan(tomllib.loads(toml)).prompts
        self.assertEqual([(p.name, p.kind, p.text) for p in prompts[1:]],
                         [('q-1', 'q', '<user>one<model>'), ('q-3', 'c', '<user>two<model>'), ('q-7', 'q', '<user>three<model>')])

    def test_a_line_without_a_text_and_a_format_without_a_place_are_named(self):
        bad = ('{"prompt": 5}', '[1]', '{"turns": [3]}', '{"turns": "abc"}', '{"text": "a", "category": [1]}', 'x')
        for line, more, named in (*((line, '', 'line 2') for line in bad), ('{"text": "b"}', 'format = 5\n', 'format needs'),
                                  ('{"text": "b"}', 'format = "user"\n', 'format needs')):
            with tempfile.NamedTemporaryFile('w', suffix='.jsonl') as file, self.assertRaisesRegex(Problem, named):
                file.write('{"text": "a"}\n' + line)
                file.flush()
                self.expand(strategies('s') + f'[prompts.q]\nfile = "{file.name}"\n{more}')

    def test_a_number_of_tokens_below_one_is_refused(self):
        for tokens in ('0', '-3', '[64, 0]', '1.5', 'true', '"64"'):
            with self.assertRaisesRegex(Problem, 'tokens is .*; give a whole number from 1 up'):
                self.expand(f'tokens = {tokens}\n{strategies("s")}')

    def test_values_that_cannot_be_used_are_refused(self):
        for toml, named in (('temperature = "hot"', "temperature is 'hot'; give a number from 0 up"),
                            ('temperature = [0, -1]', 'temperature is -1; '),
                            ('temperature = true', 'temperature is True; '), ('temperature = nan', 'temperature is nan; '),
                            ('seed = 1.5', 'seed is 1.5; give a whole number'), ('temperature = []', 'temperature has no values; '),
                            ('tokens = []', 'tokens has no values; '), ('seed = []', 'seed has no values; ')):
            with self.subTest(toml), self.assertRaisesRegex(Problem, named):
                self.expand(f'{toml}\n{strategies("s")}')
        for toml, named in (('repeats = 1.5', 'repeats is 1.5; give a whole number from 1 up'), ('repeats = true', 'repeats is True; '),
                            ('deadline_s = inf', 'deadline_s is inf; give a number'), ('deadline_s = nan', 'deadline_s is nan; ')):
            rest = '\n'.join(line for line in strategies('s').splitlines() if not line.startswith(toml.split()[0]))
            with self.subTest(toml), self.assertRaisesRegex(Problem, named):
                self.expand(f'{toml}\n{rest}')
        for toml, named in (('x = { draft = "false" }', "strategies.x: draft is 'false'; give true or false"),
                            ('x = { draft = 3 }', 'x: draft is 3; '),
                            ('x = { sweep = "no" }', "strategies.x: sweep is 'no'; give true or false"),
                            ('x = { clusters = [] }', 'x: clusters is '),
                            ('x = { ablation_of = "y" }', "strategies.x: ablation_of is 'y', but no strategy or program"),
                            ('x = { clusters = ["many"] }', "x: there is no cluster 'many'; there are one"),
                            ('[sweep]\n"--draft" = []', 'sweep: --draft has no values'),
                            ('[clusters.many]\nranks = []', 'clusters.many: ranks has no values'),
                            ('[clusters.many]\nranks = 1.5', 'clusters.many: ranks is 1.5; give a whole number from 1 up'),
                            ('[clusters.many]\nhosts = [2, 0]', 'clusters.many: hosts is 0; give a whole number from 1 up'),
                            ('[clusters.h]\nhostfile = 3', 'clusters.h: hostfile is 3; '),
                            ('[models.n]\ntarget = "t"\ndraft = [3]', 'models.n: draft is 3; give the name of a file'),
                            ('[prompts.p]\ntext = "a"\nlimit = 3', "prompts.p: 'limit' has no effect on a text; leave it out"),
                            ('[prompts.p]\ntext = 3', 'prompts.p: text is 3; '),
                            ('[prompts.p]\nfile = "a"\ncharacters = 0', 'prompts.p: characters is 0; '),
                            ('[prompts.p]\nfile = "a.jsonl"\ncategories = []', 'prompts.p: categories is '),
                            ('[prompts.p]\nfile = "a.jsonl"\nlimit = "3"', "prompts.p: limit is '3'; give a whole number"),
                            ('[prompts.p]\nfile = "/dev/null.jsonl"\ncharacters = 3', "'characters' has no effect on a .jsonl file")):
            with self.subTest(toml), self.assertRaisesRegex(Problem, named):
                self.expand(strategies('s') + toml)

    def test_a_prompt_file_that_is_missing_is_named_with_its_source(self):
        for more, remedy in (('', 'paths are relative'), ('source = "https://example.org/q"', 'get it from https://example.org/q')):
            with self.assertRaisesRegex(Problem, f'absent.jsonl cannot be read .No such file or directory.; {remedy}'):
                self.expand(strategies('s') + f'[prompts.q]\nfile = "absent.jsonl"\n{more}')

    def test_a_key_nobody_knows_is_refused(self):
        a = strategies('a')
        for toml, named in ((f'repeat = 3\n{a}', 'repeat'), (a + '[models.n]\ntarget = "t"\ndraf = "d"', 'draf'),
                            (a + '[sweep]\ndraft = [1]', "'draft'"), (a + '[clusters.x]\ncpu = 1', 'clusters.x')):
            with self.assertRaisesRegex(Problem, named):
                self.expand(toml)


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
        toml = strategies('hang', 'pipeinfer').replace('deadline_s = 60', 'deadline_s = 0.5').replace('repeats = 3', 'repeats = 1')
        self.assertEqual(self.run_to_end(toml), 3)
        rows = {row['strategy']: row for row in self.rows()}
        self.assertEqual(rows['hang']['error'], 'killed at its deadline of 0.5 s')
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
        (self.path / 'gate').touch()
        process = self.start(strategies('a', 'wait'))
        pid = self.wait_for('gate')[0]
        process.send_signal(signal.SIGINT)
        _, said = process.communicate()
        self.assertEqual(process.returncode, 130)
        self.assertIn('has 1 row;', said)
        self.assertNotIn('Traceback', said)
        self.assertFalse(os.path.exists(f'/proc/{pid}'))

    def test_a_changed_file_is_refused_without_extend(self):
        self.run_to_end(strategies('a'))
        self.assertEqual(self.run_to_end(strategies('a', 'b')), 1)
        self.assertIn('--extend', self.said)
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
        self.assertEqual(self.said, 'experiment: clusters.office: nofile does not exist; paths are relative to the folder where '
                                    'launch/experiment is started\n')
        self.assertFalse((self.path / 'calls').exists())

    def test_hosts_that_cannot_be_emulated_are_refused_before_the_first_run(self):
        with unittest.mock.patch.dict(os.environ, YAMATA_BUILD=str(self.path)):
            self.assertEqual(self.run_to_end(strategies('a') + '[clusters.slow]\nhosts = 2\n'), 1)
        self.assertIn('no hosts can be emulated', self.said)
        self.assertFalse((self.path / 'calls').exists())

    def test_two_at_once_are_refused(self):
        (self.path / 'out').mkdir()
        holder = results.Results(self.path / 'out')
        self.addCleanup(holder.close)
        self.assertEqual(self.run_to_end(strategies('a')), 1)
        self.assertIn('another launch/experiment', self.said)


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


if __name__ == '__main__':
    unittest.main()
