"""Turns a TOML file into the list of runs: what is measured, and in which order."""
import contextlib
import dataclasses
import hashlib
import itertools
import json
import math
import pathlib
import re
import shlex
import tomllib

from . import clusters, full_grid, prompts, workload
from common import places
from common.files import reading
from .plan_values import (MAX_RUNS, MAX_SEED, MAX_TOKENS, SWEPT, as_list, flag_of, is_temperature, number, refuse_given, refuse_unknown,
                          refuse_unprintable, require_text, run_flags, table_of, values, whole_number, whole_numbers, words_of)
from common.problem import Problem
from .summary import LOAD, SETUP

TOP_KEYS = {'yamata', 'models', 'clusters', 'strategies', 'programs', 'prompts', 'sweep', 'flags', 'tokens', 'temperature', 'seed',
            'repeats', 'deadline_s', 'baseline', 'commands', 'chat', 'load'}
COMMAND = 'give one, such as "other -m {target} -f {prompt_file} -n {tokens}"'
OWN_COLUMNS = {'run', 'error', 'same_text', 'wall_s', 'load_before', 'date', 'fingerprint', 'command'}  # of results.csv


@dataclasses.dataclass(frozen=True)
class Run:
    """A command to measure. `command` still contains {json} and {prompt_file}, whose paths depend on the results folder."""
    columns: dict  # the configuration, as in the CSV
    command: tuple
    prompt: prompts.Prompt
    deadline_s: float
    tokens_per_s: str | None = None  # regular expressions, for a program that does not write Yamata's JSON
    figures: tuple = ()
    workload: 'workload.Workload | None' = None  # the command is an engine, and `columns` say with what it is loaded

    @property
    def id(self):
        return digest([(key, value) for key, value in sorted(self.columns.items()) if key not in ('ablation_of', 'kind', 'nodes')])

    @property
    def fingerprint(self):
        """Changes if the same configuration means a different command or prompt."""
        return digest([self.command, self.prompt.complete('{answer}'), self.tokens_per_s, self.figures,
                       *([self.workload.meaning] if self.workload else [])])

    @property
    def label(self):
        c = self.columns
        swept = ' '.join(f'{key} {value}' for key, value in c.items() if key.startswith('-'))
        at_once = f'{c["concurrency"]} at once' if c.get('concurrency') else f'{c["rate"]} a second' if c.get('rate') else ''
        return ' '.join(str(part) for part in (c['model'], c['cluster'], c['strategy'], swept, c['prompt'], f'n={c["tokens"]}', at_once,
                                               f'repeat {c["repeat"] + 1}') if part)

    @property
    def session(self):
        """Runs with the same session are levels of one engine. Others have one of their own."""
        return [(key, value) for key, value in self.columns.items() if key not in LOAD] if self.workload else self.id


def digest(value):
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:16]


def read(path):
    """The parsed TOML file at `path`."""
    try:
        with reading(path, 'name a TOML file, such as launch/experiments/demo.toml', 1):
            return places.with_own_files(tomllib.loads(pathlib.Path(path).read_text()))
    except RecursionError:
        raise Problem(f'{path} is not TOML: its values are nested too deeply') from None
    except ValueError as error:
        raise Problem(f'{path} is not TOML: {str(error).partition("; use sys.")[0]}') from None


@contextlib.contextmanager
def naming(path):
    """A Problem of the file at `path` begins with its name."""
    try:
        yield
    except Problem as problem:
        raise Problem(' '.join(f'{path}: {problem}'.splitlines()), problem.code) from None


def load(path, full=False):
    """The experiment in the TOML file at `path`; `full`: with what its table [full] adds."""
    toml = read(path)
    with naming(path):
        toml, left_out = full_grid.settled(toml, full)
        plan = Plan(toml)
        plan.left_out = left_out
        return plan


def sweeps_of(table):
    """Every combination of the swept flags: a list of {flag: value}."""
    for flag, values_of_flag in table.items():
        if values_of_flag == []:
            raise Problem(f'sweep: {flag} has no values')
        if not flag.startswith('-'):
            raise Problem(f"sweep: '{flag}' is not a flag; write for example \"--draft\" = [1, 2, 4]")
        if flag not in SWEPT:
            refuse_given('sweep', flag)
        for value in as_list(values_of_flag):
            if not isinstance(value, (str, int, float)):
                raise Problem(f'sweep: {flag} has the value {value!r}; give numbers, texts, true or false')
    if (count := math.prod(len(as_list(values)) for values in table.values())) > MAX_RUNS:
        raise Problem(f'sweep: there are {count} combinations; give at most {MAX_RUNS}')
    return [dict(zip(table, values)) for values in itertools.product(*(as_list(values) for values in table.values()))]


def swept_words(values):
    for flag, value in values.items():
        if value is not False:
            yield from [flag] if value is True else [flag, str(value)]


def words_of_command(where, template):
    """The words of a program's command; one at least is not {launch}."""
    if template is None:
        raise Problem(f'{where}: command is missing; {COMMAND}')
    require_text(f'{where}: command', template, COMMAND)
    try:
        words = shlex.split(template)
    except ValueError as error:
        raise Problem(f'{where}: command cannot be split into words: {error}') from None
    if not next((word for word in words if word != '{launch}'), '').strip():
        raise Problem(f'{where}: command is {template!r}, which names no program; {COMMAND}')
    return words


def filled(where, template, known):
    """The words of a program's command with known values filled in; {launch} is replaced by several words."""
    for word in words_of_command(where, template):
        if word == '{launch}':
            yield from known['launch']
            continue
        for name in re.findall(r'\{(\w+)\}', word):
            if name not in known and name not in ('json', 'prompt_file'):
                raise Problem(f"{where}: {{{name}}} is not known; there are {', '.join(sorted(known))}, json and prompt_file")
        word = re.sub(r'\{(\w+)\}', lambda m: str(known.get(m[1], m[0])), word)
        if '\0' in word:
            raise Problem(f'{where}: {{prompt}} has a NUL character, which no command can have; write {{prompt_file}}, or remove it')
        yield word


def check_models(models):
    for name, model in models.items():
        refuse_unknown(f'models.{name}', model, {'target', 'draft'})
        if 'target' not in model:
            raise Problem(f'models.{name} has no target; write target = "FILE.gguf"')
        require_text(f'models.{name}: target', model['target'], 'give the name of a file')
        for draft in as_list(model.get('draft', [])):
            require_text(f'models.{name}: draft', draft, 'give the name of a file, or a list of them')


def refuse_columns(program, figures, columns):
    """Raises Problem if a figure has the name of another column of results.csv, which it would replace."""
    for figure in figures:
        if figure in columns or figure in OWN_COLUMNS:
            raise Problem(f"programs.{program}: results.csv has another column '{figure}'; give the figure another name")


def check_expressions(where, table):
    """Raises Problem for regular expressions of a program that cannot be used."""
    figures = table.get('figures', {})
    if not isinstance(figures, dict):
        raise Problem(f"{where}: figures is {figures!r}; give a table, such as {{ ttft_s = 'first after ([0-9.]+) s' }}")
    for expression in [table.get('tokens_per_s', '()'), *figures.values()]:
        try:
            groups = re.compile(expression).groups if isinstance(expression, str) else None
        except (re.error, OverflowError, RecursionError) as error:
            raise Problem(f'{where}: {expression!r} is not a regular expression: {error}') from None
        if groups is None:
            raise Problem(f'{where}: {expression!r} is not a regular expression; write it in quotes')
        if groups < 1:
            raise Problem(f'{where}: {expression!r} has no group; put ( ) around the number')


class Plan:
    """All runs of an experiment."""
    left_out = ()  # lines on what --full could not add

    def __init__(self, toml):
        refuse_unprintable(toml)
        refuse_unknown('the file', toml, TOP_KEYS)
        for key in ('models', 'clusters', 'prompts'):
            if not table_of(toml, key, f'[{key}.NAME]'):
                raise Problem(f'there are no {key}; write at least one table [{key}.NAME] (docs/experiments.md has an example)')
        strategies, programs = table_of(toml, 'strategies', '[strategies]'), table_of(toml, 'programs', '[programs.NAME]')
        if not strategies and not programs:
            raise Problem('there is nothing to run; write [strategies] or [programs.NAME]')
        self.toml = toml
        self.yamata = require_text('yamata', toml.get('yamata', places.named_program()), 'give the name of the program')
        self.flags = run_flags('flags', toml.get('flags', []))
        self.deadline_s = number(toml, 'deadline_s', 600, 0.01)
        self.workload = workload.read(table_of(toml, 'load', '[load]')) if 'load' in toml else None
        self.tokens = whole_numbers(toml, 'tokens', 64, 1, MAX_TOKENS)
        if self.workload:
            workload.refuse_others(toml)
            self.tokens = [' '.join(map(str, self.workload.answer_tokens))]
        self.temperatures = values(toml, 'temperature', 0, is_temperature, 'a number from 0 up')
        self.seeds = whole_numbers(toml, 'seed', 0, 0, MAX_SEED)
        self.repeats = whole_number('repeats', toml.get('repeats', 3))
        self.models = toml['models']
        check_models(self.models)
        self.clusters = list(clusters.clusters_of(toml['clusters']))
        self.prompts = list((workload.sources if self.workload else prompts.read_all)(toml['prompts']))
        self.chat = flag_of('', toml, 'chat', False)
        self.check_chat()
        self.check_surviving()
        self.sweeps = sweeps_of(table_of(toml, 'sweep', '[sweep]'))
        self.ways = [*self.strategies(strategies), *self.programs(programs)]
        self.check_second_turns(strategies, programs)
        self.check_names()
        self.check_count()
        self.configured = list(self.configurations())
        self.check_different()

    def check_names(self):
        """Raises Problem if the baseline, or what a strategy is an ablation of, does not exist."""
        names = [name for name, *_ in self.ways]
        for key, name in [('baseline', self.toml.get('baseline', '')),
                          *((f'strategies.{way}: ablation_of', table.get('ablation_of', '')) for way, table, _, _ in self.ways)]:
            if not isinstance(name, str):
                raise Problem(f'{key} is {name!r}; give the name of a strategy or program')
            if name and name not in names:
                raise Problem(f"{key} is '{name}', but no strategy or program has that name; there are {', '.join(names)}")
        for cluster, table in self.toml['clusters'].items():
            if not isinstance(only := table.get('strategies', names), list) or not only or any(name not in names for name in only):
                raise Problem(f"clusters.{cluster}: strategies is {only!r}; give a list of these names: {', '.join(names)}")

    def check_second_turns(self, strategies, programs):
        """Raises Problem if second turns have no answer of Yamata to follow, or a program gets their text before there is one."""
        second = next((prompt.name for prompt in self.prompts if prompt.after), '')
        if second and not strategies:
            raise Problem(f'{second} needs an answer of yamata to the first turn; write [strategies], or leave second_turn out')
        for name, table in programs.items():
            if second and '{prompt}' in str(table.get('command')):
                raise Problem(f'programs.{name}: the text of {second} is not known before the runs; write {{prompt_file}}, not {{prompt}}')

    def check_chat(self):
        """Raises Problem if prompts are given a form twice."""
        for name, table in self.toml['prompts'].items() if self.chat else ():
            for key in 'format', 'second_turn':
                if key in table:
                    raise Problem(f'prompts.{name} has a {key}, but chat = true makes a chat of one message; leave one of them out')

    def check_surviving(self):
        """Raises Problem for what launch/batch cannot do."""
        for name in [name for _, name, _, launch, _ in self.clusters if clusters.survives(launch)]:
            if self.yamata != places.named_program():
                raise Problem(f'clusters.{name}: launch/batch, which survives losses, has its own yamata; leave survive or yamata out')
            for key in 'chat', 'load':
                if self.toml.get(key):
                    raise Problem(f'clusters.{name}: launch/batch, which survives losses, does not do {key}; leave survive or {key} out')
            if programs := [its for its in self.toml.get('programs', {}) if self.runs_on(its, self.toml['programs'][its], (name, name))]:
                raise Problem(f"clusters.{name}: only yamata survives losses; name the clusters of programs.{programs[0]}")

    def runs_on(self, name, table, cluster):
        """Whether a strategy or program is run on a cluster of clusters_of."""
        only = self.toml['clusters'][cluster[1]].get('strategies', [name])
        return name in only and bool({cluster[0], cluster[1]} & set(table.get('clusters', [cluster[0]])))

    def check_count(self):
        """Raises Problem for too many runs, before there is a list of them."""
        ways = sum(len(sweeps) for name, table, sweeps, _ in self.ways for cluster in self.clusters if self.runs_on(name, table, cluster))
        count = ways * math.prod(map(len, (self.models, self.tokens, self.temperatures, self.seeds, self.prompts))) * self.repeats
        count *= len(self.workload.levels) if self.workload else 1
        if count > MAX_RUNS:
            raise Problem(f'there are {count} runs; give fewer values or repeats, for at most {MAX_RUNS}')

    def strategies(self, tables):
        for name, table in tables.items():
            table = {'flags': table} if isinstance(table, list) else table
            refuse_unknown(f'strategies.{name}', table, {'flags', 'draft', 'sweep', 'clusters', 'ablation_of'})
            flags = run_flags(f'strategies.{name}.flags', table.get('flags', []))
            flag_of(f'strategies.{name}', table, 'draft')
            self.check_clusters(f'strategies.{name}', table)
            yield name, table, self.sweeps if flag_of(f'strategies.{name}', table, 'sweep') else [{}], flags

    def check_clusters(self, where, table):
        """Raises Problem if a strategy or program names a cluster that there is not, or none."""
        known = list(dict.fromkeys(name for cluster in self.clusters for name in (cluster[1], cluster[0])))
        named = table.get('clusters', known)
        if not isinstance(named, list) or not named:
            raise Problem(f'{where}: clusters is {named!r}; give a list of names, or leave it out')
        for name in named:
            if name not in known:
                raise Problem(f"{where}: there is no cluster '{name}'; there are {', '.join(known)}")

    def programs(self, tables):
        for name, table in tables.items():
            refuse_unknown(f'programs.{name}', table, {'command', 'tokens_per_s', 'figures', 'clusters'})
            self.check_clusters(f'programs.{name}', table)
            if name in self.toml.get('strategies', {}):
                raise Problem(f"'{name}' is a strategy and a program; give one of them another name")
            check_expressions(f'programs.{name}', table)
            yield name, table, [{}], None

    def configurations(self):
        """Every configuration once; strategies with the same model, cluster and prompt are adjacent."""
        varied = itertools.product(self.models, self.clusters, self.tokens, self.temperatures, self.seeds, self.prompts)
        for model, cluster, tokens, temperature, seed, prompt in varied:
            for name, table, sweeps, flags in self.ways:
                if not self.runs_on(name, table, cluster):
                    continue
                for swept, level in itertools.product(sweeps, self.workload.levels if self.workload else [{}]):
                    columns = {'model': model, 'cluster': cluster[0], 'nodes': cluster[2], 'strategy': name,
                               'ablation_of': table.get('ablation_of', ''), 'prompt': prompt.name, 'kind': prompt.kind, 'tokens': tokens,
                               'temperature': temperature, 'seed': seed, **level, **swept}
                    refuse_columns(name, table.get('figures', {}), columns)
                    command = self.command(columns, cluster, prompt, name, table, swept, flags)
                    yield Run(columns, tuple(command), prompt, self.deadline_s, table.get('tokens_per_s'),
                              tuple(table.get('figures', {}).items()), self.workload)

    def command(self, columns, cluster, prompt, name, table, swept, flags):
        _, _, nodes, launch, cluster_flags = cluster
        model = self.models[columns['model']]
        drafts = as_list(model.get('draft', []))
        if flags is None:
            known = {'launch': launch, 'target': model['target'], 'draft': drafts[0] if drafts else '', 'prompt': prompt.text,
                     'ranks': nodes, 'hostfile': self.toml['clusters'][cluster[1]].get('hostfile', ''),
                     **{key: columns[key] for key in ('tokens', 'temperature', 'seed')}}
            return filled(f'programs.{name}', table.get('command'), known)
        drafting = [word for draft in drafts for word in ('-md', draft)] if table.get('draft', True) else []
        more = [*['--chat'] * self.chat, *self.flags, *cluster_flags, *flags, *swept_words(swept)]
        if self.workload:
            return [*launch, self.yamata, 'engine', '-m', model['target'], *drafting, *more]
        samples = columns['temperature'] > 0 or any(word.split('=')[0] == '--temp' for word in more)
        seed = ['-s', str(columns['seed'])] if samples else []  # greedy decoding warns of a seed
        if clusters.survives(launch):
            return [*launch, '-m', model['target'], '-f', '{prompt_file}', '-n', str(columns['tokens']), *seed, '--json', '{json}',
                    *drafting, '--temp', str(columns['temperature']), *more]
        return [*launch, self.yamata, 'run', '-m', model['target'], *drafting, '-f', '{prompt_file}', '-n', str(columns['tokens']),
                '--temp', str(columns['temperature']), *seed, *more, '--json', '{json}']

    def check_different(self):
        seen = set()
        for run in self.configured:
            if run.id in seen:
                what = dataclasses.replace(run, columns={**run.columns, 'repeat': 0}).label.removesuffix(' repeat 1')
                raise Problem(f'{what} would be run twice; give each value once, and use repeats')
            seen.add(run.id)

    def sessions(self):
        """Lists of runs, repeat by repeat: the levels of one engine, or a single run. Each repeat begins with a different setup, each setup
        with a different strategy, and each engine with a different level, so that none is always first. Runs that are compared stay
        together."""
        setup_of = lambda runs: [runs[0].columns[key] for key in (*SETUP, 'prompt')]
        sessions = [list(runs) for _, runs in itertools.groupby(self.configured, lambda run: run.session)]
        setups = [list(ways) for _, ways in itertools.groupby(sessions, setup_of)]
        for repeat in range(self.repeats):
            for setup in turned(setups, repeat, self.repeats):
                for session in turned(setup, repeat, self.repeats):
                    yield [dataclasses.replace(run, columns={**run.columns, 'repeat': repeat})
                           for run in turned(session, repeat, self.repeats)]

    def runs(self):
        """All runs in their order."""
        return itertools.chain.from_iterable(self.sessions())


def turned(items, turn, turns):
    """The list rotated for turn number `turn` of `turns`: in each turn it begins at a different element."""
    shift = turn * max(1, len(items) // turns) % max(1, len(items))
    return items[shift:] + items[:shift]
