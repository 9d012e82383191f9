"""Other commands of yamata in an experiment: acceptance, profile and simulate; each is run once, before the runs, and writes its files."""
import dataclasses
import pathlib
import re
import shlex

from . import running
from common.files import write_whole
from common.problem import Problem
from .plan_values import as_list, refuse_unknown, require_text, table_of, words_of

FOLDER = 'commands'  # in the results folder
COMMANDS = ('acceptance', 'profile', 'simulate')
PLACE = '{results}'  # in the words of flags: that folder


@dataclasses.dataclass(frozen=True)
class Command:
    name: str
    words: tuple  # with {results}
    deadline_s: float

    def files(self, folder):
        """What it writes: its JSON, its output, its errors, and the command itself."""
        return tuple(pathlib.Path(folder) / FOLDER / f'{self.name}.{ending}' for ending in ('json', 'out', 'err', 'txt'))


def commands_of(plan):
    """The commands of the tables [commands.NAME]: for each model that the table names, or for all; simulate once."""
    for name, table in table_of(plan.toml, 'commands', '[commands.NAME]').items():
        where = f'commands.{name}'
        refuse_unknown(where, table, {'flags', 'model', 'source'})
        words = words_of(f'{where}.flags', table.get('flags', []))
        if not words or words[0] not in COMMANDS:
            raise Problem(f'{where}: flags is {words!r}; begin with acceptance, profile or simulate, which write a JSON file')
        for flag in ('-m', '--model', '--json'):
            if flag in words:
                raise Problem(f'{where}: {flag} is given by launch/experiment itself; leave it out')
        if not re.fullmatch(r'[\w.-]+', name):
            raise Problem(f"{where}: '{name}' is no name of a file; write letters, digits and dashes")
        if words[0] == 'simulate':  # needs no model
            if 'model' in table:
                raise Problem(f'{where}: simulate needs no model; leave it out')
            yield Command(name, (plan.yamata, *words), plan.deadline_s)
            continue
        if 'model' in table and require_text(f'{where}: model', table['model'], 'name one of [models]') not in plan.models:
            raise Problem(f"{where}: there is no model '{table['model']}'; there are {', '.join(plan.models)}")
        models = as_list(table.get('model', list(plan.models)))
        for model in models:
            yield Command(name if len(models) == 1 else f'{name}-{model}',
                          (plan.yamata, words[0], '-m', plan.models[model]['target'], *words[1:]), plan.deadline_s)


def in_folder(words, folder):
    """The words with the place of the results."""
    return [word.replace(PLACE, str(pathlib.Path(folder) / FOLDER)) for word in words]


def run_all(commands, folder, say):
    """Runs those that have no file yet. Raises Problem (3) if one fails, (1) if one with a file was another command."""
    (pathlib.Path(folder) / FOLDER).mkdir(exist_ok=True)
    for command in commands:
        json_path, out, err, text = command.files(folder)
        if json_path.exists():
            if text.read_text() != line(command):
                raise Problem(f'{json_path} is of another command; give commands.{command.name} another name, or choose another folder '
                              'with --out')
            continue
        unfinished = json_path.with_suffix('.part.json')
        error, wall_s = running.execute([*in_folder(command.words, folder), '--json', str(unfinished)], out, err, command.deadline_s)
        if not error and not unfinished.exists():
            error = 'it wrote no JSON'
        if error:
            unfinished.unlink(missing_ok=True)
            raise Problem(f'commands.{command.name}: {error}', 3)
        write_whole(text, line(command).encode())
        unfinished.replace(json_path)
        say(f'{command.name}: {json_path} ({wall_s:.1f} s)')


def outputs(folder):
    """The outputs of all commands of a results folder, as Markdown."""
    parts = []
    for out in sorted((pathlib.Path(folder) / FOLDER).glob('*.out')):
        if out.with_suffix('.json').exists():
            parts += ['', f'{out.stem}:', '', '```', out.read_text(errors='replace').strip('\n'), '```']
    return '\n'.join([*parts, '']) if parts else ''


def line(command):
    """How it is shown by --dry-run."""
    return f'{command.name}: {shlex.join([*command.words, "--json", f"{PLACE}/{command.name}.json"])}'
