"""Tests which runs launch/experiment makes of a TOML file, and which files it refuses."""
import copy
import os
import pathlib
import tempfile
import tomllib
import unittest

from scene import ROOT, strategies
from measuring import plan
from common.problem import Problem


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

    def test_only_sampling_is_given_a_seed(self):
        def seeds(toml):
            return {(run.columns['temperature'], *run.command[run.command.index('-s'):][:2]) if '-s' in run.command else None
                    for run in self.expand(toml)}
        self.assertEqual(seeds('temperature = [0, 0.5]\nseed = 7\n' + strategies('a')), {None, (0.5, '-s', '7')})
        self.assertEqual(seeds('seed = 7\n' + strategies('a') + '[sweep]\n"--temp" = [0.5]\n'), {(0, '-s', '7')})

    def test_chats_are_for_runs_of_yamata_whose_prompts_have_no_other_form(self):
        toml = 'chat = true\n' + strategies('a') + '[programs.other]\ncommand = "other -m {target} -f {prompt_file} -n {tokens}"\n'
        commands = {run.columns['strategy']: run.command for run in self.expand(toml)}
        self.assertIn('--chat', commands['a'])
        self.assertNotIn('--chat', commands['other'])
        self.assertNotIn('--chat', self.expand(strategies('a'))[0].command)
        for wrong in '[prompts.one]\ntext = "x"\nformat = "<{}>"\n', '':
            with self.assertRaisesRegex(Problem, 'prompts.one has a format, but chat = true|^chat is 1; give true or false'):
                self.expand((toml if wrong else toml.replace('true', '1')) + wrong)

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

    def test_a_cluster_that_survives_losses_is_started_by_batch(self):
        safe = 'survive = true\n'
        toml = strategies('a').replace('yamata = "./fake"\n', '') + \
            f'[clusters.hosts]\nhostfile = "h.txt"\nmpirun = ["--mca", "x", "1"]\n{safe}[clusters.queue]\nslurm = true\nranks = 3\n{safe}'
        starts = {run.columns['cluster']: run.command[:run.command.index('-m')] for run in self.expand(toml)}
        batch = f'{ROOT}/launch/batch'
        self.assertEqual(starts['hosts'], (batch, '--hostfile', 'h.txt', '--mpirun', '--mca x 1'))
        self.assertEqual(starts['queue'], (batch, '--hostfile', 'slurm', '--ranks', '3'))
        for more, said in (('chat = true\n', 'does not do chat; leave survive or chat out'), ('yamata = "x"\n', 'has its own yamata')):
            with self.assertRaisesRegex(Problem, f'clusters.hosts: launch/batch, which survives losses, {said}'):
                self.expand(more + toml)
        with self.assertRaisesRegex(Problem, 'clusters.hosts: only yamata survives losses; name the clusters of programs.other'):
            self.expand(toml + '[programs.other]\ncommand = "{launch} other {prompt_file}"\n')
        with self.assertRaisesRegex(Problem, 'with survive, mpirun starts the ranks; leave srun out'):
            self.expand(toml + 'srun = ["x"]\n')

    def test_a_cluster_may_have_some_of_the_strategies(self):
        toml = strategies('a', 'b') + '[clusters.single]\nranks = 2\nstrategies = ["b"]\n'
        self.assertEqual({(run.columns['cluster'], run.columns['strategy']) for run in self.expand(toml)},
                         {('one', 'a'), ('one', 'b'), ('single', 'b')})
        for wrong in '5', '[]', '["c"]', '[5]':
            with self.assertRaisesRegex(Problem, r'clusters.single: strategies is .*; give a list of these names: a, b$'):
                self.expand(toml.replace('["b"]', wrong))

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

    def test_prompts_of_datasets_have_names_of_their_own(self):
        with tempfile.NamedTemporaryFile('w', suffix='.jsonl') as file:
            file.write('{"question": "one", "answer": "1"}\n{"instruction": "two", "input": "2"}\n{"instruction": "three", "input": ""}\n'
                       '{"question": "not this", "turns": ["four"]}\n')
            file.flush()
            prompts = plan.Plan(tomllib.loads(strategies('s') + f'[prompts.q]\nfile = "{file.name}"\n')).prompts
        self.assertEqual([p.text for p in prompts[1:]], ['one', 'two\n2', 'three', 'four'])

    def test_second_turns_follow_their_first_ones_and_what_they_lack_is_named(self):
        turns = '{"turns": ["a", "b"]}\n{"turns": ["c"]}\n{"prompt": "d", "turns": ["e", "f"]}\n'
        with tempfile.NamedTemporaryFile('w', suffix='.jsonl') as file, tempfile.NamedTemporaryFile('w', suffix='.jsonl') as single:
            file.write(turns)
            single.write('{"turns": ["c"]}\n')
            file.flush(), single.flush()
            table = f'[prompts.q]\nfile = "{file.name}"\nsecond_turn = "{{question}}; {{answer}}; {{prompt}}"\n'
            prompts = plan.Plan(tomllib.loads(strategies('s') + table)).prompts[1:]
            self.assertEqual([(p.name, p.complete('x')) for p in prompts],
                             [('q-1', 'a'), ('q-1-2', 'b; x; a'), ('q-2', 'c'), ('q-3', 'd')])
            ids = {run.columns['prompt']: run.fingerprint for run in self.expand(strategies('s') + table)}
            other = self.expand(strategies('s') + table.replace('{prompt}"', '{prompt}!"'))
            changed = {run.columns['prompt']: run.fingerprint for run in other}
            self.assertEqual({name for name in ids if ids[name] != changed[name]}, {'q-1-2'}, 'another format is another prompt')
            program = '[programs.p]\ncommand = "x {prompt}"\ntokens_per_s = "(5)"\n'
            for toml, named in ((strategies('s') + table.replace('{answer}', ''), 'second_turn is .*; give a text that has each of '),
                                (strategies('s') + table.replace(file.name, single.name), 'no line of .* has a second turn'),
                                (strategies('s') + table + program, 'q-1-2 is not known before the runs; write {prompt_file}'),
                                (strategies() + table + program.replace('{prompt}', ''), 'q-1-2 needs an answer of yamata')):
                with self.subTest(named), self.assertRaisesRegex(Problem, named):
                    self.expand(toml)

    def test_a_line_without_a_text_and_a_format_without_a_place_are_named(self):
        for line, said in (('{"prompt": "x', 'line 2 of .* is not JSON; each line of a list of prompts is an object, such as '),
                           ('x', 'line 2 of .* is not JSON; '), ('[' * 100000, 'line 2 of .* is not JSON; '),
                           ('{"prompt": "\\ud800"}', 'line 2 of .* has half of a surrogate pair, which is no character; correct it'),
                           ('{"prompt": 5}', 'line 2 of .* has no text in "prompt", "text", "turns", "question" or "instruction"')):
            with tempfile.NamedTemporaryFile('w', suffix='.jsonl') as file, self.assertRaisesRegex(Problem, said):
                file.write('{"text": "a"}\n' + line)
                file.flush()
                self.expand(strategies('s') + f'[prompts.q]\nfile = "{file.name}"\n')
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
                            ('tokens = []', 'tokens has no values; '), ('seed = []', 'seed has no values; '),
                            ('tokens = [8, 8]', 'n=8 .*would be run twice; give each value once')):
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
                            ('[clusters.e]\nhosts = 2\nrate = "1gb"',
                             "clusters.e: --rate: '1gb' is no rate; write a number with one of the units kbit, mbit, gbit"),
                            ('[clusters.e]\nhosts = 2\ndelay = 0.1', "clusters.e: --delay: '0.1' is no delay; write a number with "),
                            ('[clusters.e]\nhosts = 2\ncpu = 200', 'clusters.e: --cpu must be at most 100'),
                            ('[clusters.e]\nhosts = 2\ncpu = [20, 30, 40]', 'clusters.e: --cpu has 3 values for 2 hosts; '),
                            ('[clusters.e]\nhosts = 2\nemulate = ["--slow", "0"]', 'clusters.e: --slow must be at least 1'),
                            ('[programs.o]\ncommand = "o {modle}"', 'programs.o: {modle} is not known; '),
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


class WrongValues(unittest.TestCase):
    """Whatever a key has, the file is refused in one line, or the plan can be made."""

    EVERY_KEY = strategies('a').replace('[models.m]', """
tokens = 8
temperature = 0
seed = 0
flags = ["-v"]
baseline = "a"
[models.m]""") + """
b = { flags = ["-x"], draft = true, sweep = true, clusters = ["one"], ablation_of = "a" }
[clusters.many]
ranks = 2
mpirun = []
flags = []
[clusters.list]
hostfile = "list"
[clusters.emulated]
hosts = 2
cpu = 20
rate = "1gbit"
delay = "1ms"
emulate = []
[clusters.queue]
slurm = true
srun = []
[sweep]
"--draft" = [1]
[programs.o]
command = "o {launch} {target} {prompt}"
tokens_per_s = "(5)"
figures = { x = "(5)" }
clusters = ["one"]
[prompts.file]
file = "FOLDER/text"
source = "there"
characters = 3
[prompts.lines]
file = "FOLDER/lines.jsonl"
categories = ["c"]
limit = 1
format = "<{}>"
"""
    VALUES = (3, -1, 1.5, True, False, '', ' ', 'x', '(', '{', '\0', 'a\nb', [], [[]], [{}], [3], [''], ['\0'], [True], {}, {'x': 3},
              {'': ''}, {'a\nb': 3}, {'--x': {}}, {'--x': '\0'}, {'-\0': 1}, 10**20, 10**5000, float('inf'), float('nan'),
              tomllib.loads('day = 1979-05-27')['day'])

    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        folder = pathlib.Path(temporary.name)
        (folder / 'text').write_text('a text')
        (folder / 'lines.jsonl').write_text('{"prompt": "q", "category": "c"}\n')
        self.toml = tomllib.loads(self.EVERY_KEY.replace('FOLDER', str(folder)))

    def places(self, table, above=()):
        for key, value in table.items():
            yield *above, key
            if isinstance(value, dict):
                yield from self.places(value, (*above, key))

    def test_no_value_of_any_key_is_a_mistake_of_the_script(self):
        refused = 0
        for place in self.places(self.toml):
            for value in self.VALUES:
                toml = table = copy.deepcopy(self.toml)
                for key in place[:-1]:
                    table = table[key]
                table[place[-1]] = value
                with self.subTest(place=place, value=repr(value) if value != 10**5000 else 'huge'):
                    try:
                        with plan.naming('e.toml'):
                            for run in plan.Plan(toml).runs():
                                os.fsencode(' '.join((run.id, run.fingerprint, run.label, *run.command)))
                                self.assertTrue(run.command[0])
                                self.assertNotIn('\0', ''.join((run.label, *run.command)))
                    except Problem as problem:
                        refused += 1
                        self.assertEqual(len(str(problem).splitlines()), 1)
        self.assertGreater(refused, 1000)

    def test_the_key_and_the_remedy_are_named(self):
        give = 'give one, such as "other -m {target} '
        nul = r"has a NUL character (\u0000), which no command can have; remove it"
        for place, value, said in (
                ('programs.o.command', '', f"programs.o: command is ''; {give}"), ('programs.o.command', '  ', f"command is '  '; {give}"),
                ('programs.o.command', '{launch}', f"programs.o: command is '{{launch}}', which names no program; {give}"),
                ('programs.o.command', '{launch} ""', 'which names no program; '), ('programs.o.command', 3, 'programs.o: command is 3; '),
                ('programs.o.command', 'o \0 5', f'programs.o.command {nul}'), ('flags', ['\0'], f'flags {nul}'),
                ('sweep', {'-\0': 1}, f'a name in sweep {nul}'), ('programs.o.figures', 3, 'programs.o: figures is 3; give a table'),
                ('programs.o.figures', {'nodes': '(5)'}, "programs.o: results.csv has another column 'nodes'; give the figure another"),
                ('flags', ['--temp=1'], 'flags: --temp=1 is given by launch/experiment itself; write temperature'),
                ('strategies.b.flags', ['-m', 'x'], 'strategies.b.flags: -m is given by launch/experiment itself; write [models]'),
                ('sweep', {'-n': [7, 9]}, 'sweep: -n is given by launch/experiment itself; write tokens'),
                ('programs.o.tokens_per_s', 3, 'programs.o: 3 is not a regular expression; write it in quotes'),
                ('yamata', 3, 'yamata is 3; give the name of the program'), ('yamata', '', "yamata is ''; give the name of the program"),
                ('models.m.target', '', "models.m: target is ''; give the name of a file"),
                ('models.m.draft', ['draft', ''], "models.m: draft is ''; give the name of a file"),
                ('clusters.list.hostfile', '', "clusters.list: hostfile is ''; give the name of a file"),
                ('clusters.queue.slurm', 3, 'clusters.queue: slurm is 3; write slurm = true'),
                ('prompts.file.file', '', "prompts.file: file is ''; give the name of a file"),
                ('prompts.file.source', 3, 'prompts.file: source is 3; write it in quotes'),
                ('models', 3, 'models is 3, not a table; write [models.NAME]'), ('sweep', 3, 'sweep is 3, not a table; write [sweep]'),
                ('sweep', {'-x': [[1]]}, 'sweep: -x has the value [1]; give numbers, texts, true or false'),
                ('baseline', 3, 'baseline is 3; give the name of a strategy'),
                ('strategies.b.ablation_of', [], 'strategies.b: ablation_of is []; give the name of a strategy')):
            toml = table = copy.deepcopy(self.toml)
            *above, last = place.split('.')
            for key in above:
                table = table[key]
            table[last] = value
            with self.subTest(place=place, value=value):
                with self.assertRaises(Problem) as refused:
                    plan.Plan(toml)
                self.assertIn(said, str(refused.exception))

    def test_a_prompt_in_a_command_has_no_nul(self):
        pathlib.Path(self.toml['prompts']['file']['file']).write_text('a\0b')
        with self.assertRaisesRegex(Problem, 'programs.o: {prompt} has a NUL character, .*; write {prompt_file}, or remove it'):
            plan.Plan(self.toml)
        self.toml['programs']['o']['command'] = 'o {prompt_file}'
        self.assertTrue(plan.Plan(self.toml).configured)

    def test_counts_have_limits(self):
        for key, value, said in (('repeats', 10**20, 'repeats is 100000000000000000000; give at most 1000000'),
                                 ('tokens', [8, 2**31], 'tokens is 2147483648; give at most 2147483647'),
                                 ('seed', 2**64, 'seed is 18446744073709551616; give at most 18446744073709551615'),
                                 ('repeats', 999999, r'there are \d+ runs; give fewer values or repeats, for at most 100000'),
                                 ('temperature', list(range(100000)), r'there are \d+ runs; '),
                                 ('sweep', {f'-{letter}': list(range(1000)) for letter in 'ABCDEFGH'},
                                  'sweep: there are 10{24} combinations; give at most 100000')):
            with self.subTest(key=key), self.assertRaisesRegex(Problem, said):
                plan.Plan({**self.toml, key: value})
        for table, key in (('clusters.many', 'ranks'), ('prompts.lines', 'limit'), ('prompts.file', 'characters')):
            above, name = table.split('.')
            toml = copy.deepcopy(self.toml)
            toml[above][name][key] = 10**20
            with self.subTest(key=key), self.assertRaisesRegex(Problem, f'{table}: {key} is 10*; give at most 1000000'):
                plan.Plan(toml)

    def test_a_file_that_python_cannot_hold_is_refused(self):
        with tempfile.NamedTemporaryFile('w', suffix='.toml') as file:
            for text, said in (('repeats = ' + '9' * 5000, 'is not TOML: Exceeds the limit .4300 digits. for integer string conversion'),
                               ('a = ' + '[' * 50000, 'is not TOML: its values are nested too deeply')):
                file.seek(0)
                file.write(text)
                file.flush()
                with self.assertRaisesRegex(Problem, said):
                    plan.load(file.name)


if __name__ == '__main__':
    unittest.main()
