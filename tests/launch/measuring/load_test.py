"""Tests experiments with [load]: which requests an engine gets and when, what is recorded, and what a row says."""
import collections
import contextlib
import csv
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tomllib
import unittest
import unittest.mock

from scene import ENGINE, ROOT, Folder, strategies
from common.problem import Problem
from measuring import load_run, plan, running, summary, workload
from measuring.engine_process import EngineFailed, EngineProcess

LOAD = '[load]\nlevels = [1, 2, 4]\nrequests = 3\nprompt_tokens = [4, 9]\nanswer_tokens = 6\n'


def experiment(more='', *names):
    """An experiment whose text has enough tokens, which are bytes."""
    return strategies(*(names or ('a',))).replace('repeats = 3', 'repeats = 1') + LOAD + more


class ScriptedEngine:
    """Answers requests in order, each with as many tokens as wanted, one of which comes every second; its clock is that of the test.
    `most`: requests that were open at the same time. `sent_at`: when each came."""

    def __init__(self, end='done', **fields):
        self.time, self.open, self.most, self.sent_at = 100.0, collections.deque(), 0, []
        self.end = {'is': end, 'reason': 'length', **fields}

    def now(self):
        return self.time

    def submit(self, max_tokens, **_):
        self.sent_at.append(self.time - 100)
        self.open.append([len(self.sent_at), 0, max_tokens])
        self.most = max(self.most, len(self.open))
        return len(self.sent_at)

    def next(self, latest):
        if not self.open or self.time + 1 > latest:
            self.time = max(self.time, latest)
            return None
        self.time += 1
        text = self.open[0]
        number, done, wanted = text
        if done == wanted:
            self.open.popleft()
            self.time -= 1  # together with its last token
            return self.time, {'id': number, 'seconds': {'tokens': list(range(wanted))}, **self.end}
        text[1] += 1
        return self.time, {'is': 'text', 'id': number, 'ids': [done + 1]}


class Driving(unittest.TestCase):
    def answers(self, engine, counts, at_once, due_s=None, deadline_s=1000):
        return load_run.answer_all(engine, [{'max_tokens': count} for count in counts], at_once, deadline_s, due_s)

    def test_so_many_requests_are_open_and_the_next_follows_at_an_end(self):
        for at_once, sent in ((1, [0, 2, 5, 6]), (2, [0, 0, 2, 5]), (9, [0] * 4)):
            engine = ScriptedEngine()
            texts = self.answers(engine, [2, 3, 1, 1], at_once)
            self.assertEqual((engine.most, engine.sent_at), (min(at_once, 4), sent))
            self.assertEqual([text.begin_s for text in texts], sent)
            self.assertEqual([text.end_s for text in texts], [2, 5, 6, 7])
            self.assertEqual([text.first_token_s for text in texts], [first - begin for first, begin in zip((1, 3, 6, 7), sent)])
            self.assertEqual([text.ids for text in texts], [[1, 2], [1, 2, 3], [1], [1]])
            self.assertEqual(texts[1].gaps_s, [1, 1])

    def test_requests_come_when_they_are_due_and_waiting_for_the_engine_counts(self):
        engine = ScriptedEngine()
        texts = self.answers(engine, [2, 2, 1], 9, [0, 0.5, 20])
        self.assertEqual(engine.sent_at, [0, 0.5, 20])
        self.assertEqual([text.begin_s for text in texts], [0, 0.5, 20])
        late = ScriptedEngine()
        texts = self.answers(late, [2, 2], 1, [0, 0.5])
        self.assertEqual((late.sent_at, [text.begin_s for text in texts]), ([0, 2], [0, 0.5]))
        self.assertEqual(texts[1].first_token_s, 2.5)

    def test_what_ends_otherwise_is_a_failure(self):
        for engine, said in ((ScriptedEngine('done', reason='context'), 'ended early: context'),
                             (ScriptedEngine('error', message='bad'), 'ended early: bad'),
                             (ScriptedEngine('refused', message='full'), 'ended early: full')):
            with self.assertRaisesRegex(EngineFailed, said):
                self.answers(engine, [1], 1)
        for due_s in None, [0, 50]:
            with self.assertRaisesRegex(EngineFailed, 'killed at its deadline of 3 s'):
                self.answers(ScriptedEngine(), [2, 2], 1, due_s, 3)

    def test_figures_are_of_all_texts(self):
        texts = [load_run.Text(0, 1, 4, [1, 2, 3], [1, 2]), load_run.Text(1, 4, 8, [1, 2, 4], [3, 1]), load_run.Text(2, 4, 5, [1], [])]
        row = load_run.figures(texts, [[1, 2, 3], [1, 2, 3], [1]])
        self.assertEqual({key: row[key] for key in ('requests', 'generated_tokens', 'decode_tokens_per_s', 'different_texts')},
                         {'requests': 3, 'generated_tokens': 7, 'decode_tokens_per_s': 7 / 8, 'different_texts': 1})
        self.assertEqual([row[f'first_token_{share}_s'] for share in ('p50', 'p95')], [2, 3])
        self.assertEqual([row[f'itl_{share}_s'] for share in ('mean', 'p50', 'p95', 'p99')], [1.75, 1, 3, 3])
        self.assertIsNone(load_run.figures([load_run.Text(0, 1, 1, [1], [])], [[1]])['itl_p50_s'])

    def test_percentiles(self):
        values = list(range(200, 0, -1))
        self.assertEqual([load_run.percentile(values, share) for share in (.5, .95, .99)], [100, 190, 198])
        self.assertEqual((load_run.percentile([7], .01), load_run.percentile([], .5)), (7, None))


class Requests(unittest.TestCase):
    LOAD = workload.read({'levels': [1], 'requests': 50, 'prompt_tokens': [5, 20], 'answer_tokens': [3, 8]})

    def requests(self, seed=0, level='2', ids=range(1000)):
        return workload.requests_of(self.LOAD, ids, [7777], seed, level)

    def test_they_are_different_parts_of_the_text_with_lengths_of_the_lists(self):
        found = self.requests()
        self.assertEqual(len({request.prompt for request in found}), 50)
        self.assertEqual({(len(request.prompt), request.answer) for request in found}, {(5, 3), (5, 8), (20, 3), (20, 8)})
        for request in found:
            self.assertEqual(request.prompt[0], 7777)
            self.assertEqual(request.prompt[1:], tuple((request.prompt[1] + i) % 1000 for i in range(len(request.prompt) - 1)))

    def test_the_seed_determines_them_and_each_level_has_others_of_the_same_lengths(self):
        self.assertEqual(self.requests(), self.requests())
        self.assertNotEqual(self.requests(), self.requests(seed=1))
        other = self.requests(level='4')
        self.assertNotEqual(self.requests(), other)
        self.assertEqual([(len(one.prompt), one.answer, one.seed) for one in self.requests()],
                         [(len(one.prompt), one.answer, one.seed) for one in other])
        self.assertEqual([one.seed for one in self.requests(seed=2**64 - 1)][:3], [2**64 - 1, 0, 1])

    def test_a_text_that_is_too_short_is_told(self):
        with self.assertRaisesRegex(Problem, 'have 49 tokens, too few for 50 different requests'):
            self.requests(ids=range(49))

    def test_arrivals_are_those_of_a_poisson_process(self):
        times = workload.arrivals(2, 4000, 0, 0)
        gaps = [later - earlier for earlier, later in zip(times, times[1:])]
        self.assertEqual((times[0], times == workload.arrivals(2, 4000, 0, 0)), (0, True))
        self.assertAlmostEqual(sum(gaps) / len(gaps), .5, delta=.03)
        self.assertAlmostEqual(sum(gap > .5 for gap in gaps) / len(gaps), 1 / 2.718, delta=.03)
        for one, other in zip(times, workload.arrivals(8, 4000, 0, 0)):
            self.assertAlmostEqual(one, 4 * other)
        self.assertNotEqual(times, workload.arrivals(2, 4000, 0, 1))
        self.assertNotEqual(times, workload.arrivals(2, 4000, 1, 0))


class Plan(unittest.TestCase):
    def plan(self, toml):
        return plan.Plan(tomllib.loads(toml))

    def test_an_engine_has_all_levels_and_each_repeat_begins_with_another(self):
        toml = experiment('rates = [0.5]\n', 'a', 'b').replace('repeats = 1', 'repeats = 4')
        sessions = list(self.plan(toml).sessions())
        self.assertEqual(len(sessions), 2 * 4)
        levels = [[(run.columns['concurrency'], run.columns['rate']) for run in session] for session in sessions]
        self.assertEqual({tuple(sorted(map(str, its))) for its in levels}, {tuple(sorted(map(str, levels[0])))})
        self.assertEqual(len({its[0] for its in levels}), 4)
        self.assertEqual([{run.columns['strategy'] for run in session} for session in sessions[:2]], [{'a'}, {'b'}])
        runs = [run for session in sessions for run in session]
        self.assertEqual(len({run.id for run in runs}), 2 * 4 * 4)
        self.assertEqual(runs[0].command[:4], ('./fake', 'engine', '-m', 'target'))
        self.assertFalse({'--json', '-f', '-n', '--temp'} & set(runs[0].command))
        self.assertIn('0.5 a second', ' '.join(run.label for run in runs))

    def test_another_workload_is_another_meaning_and_another_level_is_not(self):
        first = {run.id: run.fingerprint for run in self.plan(experiment()).runs()}
        more = {run.id: run.fingerprint for run in self.plan(experiment().replace('[1, 2, 4]', '[1, 2, 4, 8]')).runs()}
        self.assertEqual(len(more), 4)
        self.assertEqual({number: more[number] for number in first}, first)
        other = {run.id: run.fingerprint for run in self.plan(experiment().replace('requests = 3', 'requests = 4')).runs()}
        self.assertTrue(all(other[number] != first[number] for number in first))

    def test_all_texts_of_a_table_are_one(self):
        toml = experiment() + '[prompts.more]\nfile = "launch/experiments/tales.jsonl"\n'
        before = os.getcwd()
        os.chdir(ROOT)
        self.addCleanup(os.chdir, before)
        king, more = self.plan(toml).prompts
        self.assertEqual((king.name, king.kind, more.name), ('king', 'prose', 'more'))
        self.assertEqual(more.text.count('\n\n'), 7)

    def test_wrong_tables_are_refused(self):
        for old, new, said in (('levels = [1, 2, 4]\n', '', 'load has neither levels nor rates'),
                               ('[1, 2, 4]', '[]', 'levels has no values'), ('[1, 2, 4]', '[0]', 'levels is 0; give a whole number'),
                               ('[1, 2, 4]', '[2000]', 'levels is 2000; give at most 1024'),
                               ('[1, 2, 4]', '[2, 2]', 'would be run twice'),
                               ('levels = [1, 2, 4]', 'rates = [0]', 'rates is 0; give a number above 0'),
                               ('requests = 3', 'requests = 0', 'load: requests is 0'),
                               ('requests = 3', 'request = 3', "load: 'request' is not known"),
                               ('answer_tokens = 6', 'answer_tokens = "6"', "answer_tokens is '6'"),
                               ('yamata =', 'tokens = 5\nyamata =', 'leave tokens out: write answer_tokens'),
                               ('yamata =', 'chat = true\nyamata =', 'leave chat out'),
                               ('[load]', '[programs.p]\ncommand = "x"\n[load]', 'leave programs out'),
                               ('kind = "prose"', 'second_turn = "x"\nkind = "prose"', 'prompts.king has a second_turn')):
            with self.subTest(new), self.assertRaisesRegex(Problem, said):
                self.plan(experiment().replace(old, new))


class Running(Folder):
    def run_levels(self, toml, *flags, **environment):
        with unittest.mock.patch.dict(os.environ, ENGINE_SLOTS='4', ENGINE_ALIVE_S='.02', **environment):
            return self.run_to_end(toml, *flags)

    def rows_by_level(self):
        return {row['concurrency'] or f'{row["rate"]}/s': row for row in self.rows()}

    def test_a_row_per_level_of_one_engine(self):
        self.assertEqual(self.run_levels(experiment('rates = [1000]\n')), 0, self.said)
        self.assertEqual(self.calls(), ['engine'])
        rows = self.rows_by_level()
        self.assertEqual(list(rows), ['1', '2', '4', '1000/s'])
        for row in rows.values():
            self.assertEqual({key: row[key] for key in ('error', 'same_text', 'different_texts', 'pauses', 'requests', 'tokens',
                                                        'generated_tokens', 'slots', 'cache_tokens', 'nodes', 'yamata_version')},
                             {'error': '', 'same_text': 'yes', 'different_texts': '0', 'pauses': '0', 'requests': '3', 'tokens': '6',
                              'generated_tokens': '18', 'slots': '4', 'cache_tokens': '16384', 'nodes': '1', 'yamata_version': '9.9'})
            self.assertGreater(float(row['decode_tokens_per_s']), 0)
            self.assertLessEqual(float(row['first_token_p50_s']), float(row['first_token_p95_s']))
            self.assertAlmostEqual(float(row['itl_p99_s']), .01)
            details = json.loads((self.path / 'out/runs' / f'{row["run"]}.json').read_text())
            self.assertEqual([len(text['ids']) for text in details['texts']], [6] * 3)
        self.assertEqual(len({tuple(json.loads((self.path / 'out/runs' / f'{row["run"]}.json').read_text())['texts'][0]['ids'])
                              for row in rows.values()}), 4, 'each level has other requests')

    def test_texts_that_differ_from_those_alone_and_pauses_are_counted(self):
        # The first request is for warmth, 2 to 4 are those of one at a time, 5 to 7 those of two, 8 to 10 the same alone.
        self.assertEqual(self.run_levels(experiment(), ENGINE_PAUSES='5 7 11'), 3, self.said)
        rows = self.rows_by_level()
        self.assertEqual({level: (row['different_texts'], row['pauses'], row['same_text']) for level, row in rows.items()},
                         {'1': ('0', '0', 'yes'), '2': ('2', '2', 'no'), '4': ('1', '1', 'no')})
        self.assertIn('2 at once repeat 1: ', self.said)
        self.assertIn('ANOTHER TEXT', self.said)

    def test_texts_alone_are_written_once_for_all_strategies_and_repeats(self):
        toml = experiment('', 'a', 'b').replace('repeats = 1', 'repeats = 2')
        # The third engine has the levels 2, 4 and 1.
        self.assertEqual(self.run_levels(toml), 0, self.said)
        self.assertEqual((len(self.calls()), len(self.rows())), (4, 12))
        self.assertEqual(len(list((self.path / 'out/runs').glob('alone-*.json'))), 3)
        for path in (self.path / 'out/runs').glob('alone-*.json'):
            path.write_text(json.dumps([[1], [2], [3]]))
        (self.path / 'out/results.csv').unlink()
        self.assertEqual(self.run_levels(toml), 3)
        self.assertEqual({row['different_texts'] for row in self.rows()}, {'3'}, 'they are read, not generated again')

    def test_only_levels_without_a_row_are_measured(self):
        self.assertEqual(self.run_levels(experiment()), 0, self.said)
        table = self.path / 'out/results.csv'
        rows = self.rows()
        with open(table, 'w', newline='') as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows([rows[0], rows[2]])
        self.assertEqual(self.run_levels(experiment()), 0, self.said)
        self.assertEqual(self.calls(), ['engine'] * 2)
        self.assertEqual([row['concurrency'] for row in self.rows()], ['1', '4', '2'])
        self.assertEqual(self.run_levels(experiment()), 0, self.said)
        self.assertEqual(self.calls(), ['engine'] * 2, 'nothing is left')

    def test_after_a_failure_another_engine_measures_the_rest(self):
        self.assertEqual(self.run_levels(experiment(), ENGINE_DIES='8'), 3, self.said)
        self.assertEqual([(row['concurrency'], row['error']) for row in self.rows()],
                         [('1', ''), ('2', 'exit code 3: no message'), ('4', '')])
        self.assertEqual(self.calls(), ['engine'] * 2)
        self.assertEqual(self.run_levels(experiment(), '--retry-failed'), 0, self.said)
        self.assertEqual({row['concurrency'] for row in self.rows()}, {'1', '2', '4'})

    def test_an_engine_that_cannot_start_or_has_no_room_is_a_failed_row(self):
        for toml, environment, error in (
                (experiment().replace('"--strategy", "a"', '"--broken"'), {}, 'exit code 2: yamata: the file is damaged; copy it again'),
                (experiment(), {'ENGINE_CONTEXT': '13'}, 'the longest request has 15 tokens, the context 13; write flags = ["-c", "15"]'),
                (experiment().replace('requests = 3', 'requests = 30'), {},
                 'the texts of the prompts have 22 tokens, too few for 30 different requests; give longer ones')):
            with self.subTest(error):
                self.assertEqual(self.run_levels(toml, '--extend', '--out', error[:9], **environment), 3, self.said)
                self.assertIn(f'FAILED: {error}', self.said)

    def test_an_interrupt_leaves_no_engine_behind(self):
        with unittest.mock.patch.dict(os.environ, ENGINE_LOADS='hang'):
            process = self.start(experiment())
        self.wait_for('calls')
        process.terminate()
        _, said = process.communicate()
        self.assertEqual(process.returncode, 130, said)
        for entry in pathlib.Path('/proc').iterdir():
            if entry.name.isdigit() and os.path.exists(entry / 'cwd') and os.readlink(entry / 'cwd') == str(self.path):
                self.fail((entry / 'cmdline').read_bytes())

    def test_an_engine_that_does_not_end_is_killed(self):
        environment = {'ENGINE_LOADS': 'hang', 'ENGINE_IGNORES_SIGTERM': '1'}
        for error in None, RuntimeError:
            with unittest.mock.patch.dict(os.environ, environment), unittest.mock.patch.object(running, 'GRACE_S', .05), \
                    contextlib.suppress(RuntimeError), EngineProcess([sys.executable, ENGINE, 'engine'], self.path / 'err') as engine:
                engine.wait('loading', 60)
                if error:
                    raise error
            self.assertEqual(running.members(engine.process.pid), [])

    def test_a_summary_has_a_row_per_level_and_ratios_at_the_same_one(self):
        self.assertEqual(self.run_levels('baseline = "a"\n' + experiment('', 'a', 'b')), 0, self.said)
        text = summary.table(self.rows(), 'a')
        self.assertIn('| strategy | concurrency | runs | failed | tokens/s | / a | first token ms (p50) | first token ms (p95) | '
                      'ITL ms (p50) | ITL ms (p95) | ITL ms (p99) | same text |', text)
        for level in 1, 2, 4:
            self.assertRegex(text, rf'\| a \| {level} \| 1 \| 0 \| \S+ \| 1 \|')
        rows = [row | {'decode_tokens_per_s': str(float(row['concurrency']) * (1 + (row['strategy'] == 'b')))} for row in self.rows()]
        self.assertEqual(summary.ratios([row for row in rows if row['strategy'] == 'b'], rows, 'a'), [2, 2, 2])

    def test_figures_show_throughput_and_latency(self):
        if not importlib.util.find_spec('matplotlib'):
            self.skipTest('matplotlib is not installed')
        self.assertEqual(self.run_levels(experiment('rates = [1000]\n', 'a', 'b')), 0, self.said)
        done = subprocess.run([sys.executable, ROOT / 'launch/plot', 'out'], cwd=self.path, capture_output=True, text=True, timeout=200)
        self.assertEqual((done.returncode, done.stdout), (0, 'out/plots: load-concurrency, load-rate (.png and .svg)\n'), done.stderr)
        drawn = (self.path / 'out/plots/load-concurrency.svg').read_text()
        for words in ('throughput of all texts', 'time to first token', 'between tokens', 'requests at a time', '<!-- b -->'):
            self.assertIn(words, drawn)


if __name__ == '__main__':
    unittest.main()
