"""Writes the man pages and completions of the program and its scripts from what they print with --help; `cmake --install` calls it:
write.py OUT PROGRAM VERSION DATA DOCUMENTS SCRIPT... DATA and DOCUMENTS: the folders where models and pages will be installed."""
import os
import pathlib
import re
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.realpath(__file__))))

from common import places
from installation import completions, help_text, manual

WIDE = dict(os.environ, COLUMNS='10000', LC_ALL='C.UTF-8')  # argparse breaks no line


def said(*command):
    """What a program prints with --help."""
    done = subprocess.run([*command, '--help'], capture_output=True, text=True, env=WIDE, stdin=subprocess.DEVNULL, check=False)
    if done.returncode or not done.stdout:
        sys.exit(f'{" ".join(map(str, command))} --help failed: {done.stderr.strip() or done.returncode}')
    return places.as_installed(done.stdout)


def located(text, data, documents):
    """A page's text with the files that it names where they are installed."""
    text = re.sub(r'(?<![\w/])((models|launch/experiments)/[\w.-]+)', rf'{data}/\1', text)
    return re.sub(r'(?<![\w/])(docs/[\w-]+\.md)', rf'{documents}/\1', text)


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def program_page(commands):
    """The page of the program itself."""
    page = help_text.Page('yamata', [], 'yamata COMMAND [flags]', [])
    page.about = ['One large language model across the machines you have. On one machine, start it as it is; on several, start one rank',
                  'per machine:', '', '  mpirun ... yamata COMMAND [flags]', '',
                  'Each command has a page of its own, such as yamata-run(1).']
    page.groups = [('commands', [help_text.Flag([name], '', what) for name, what in commands.items()]),
                   ('options', [help_text.Flag(['--version'], '', 'print the version and the commit')])]
    return page


def pages_of(program, scripts):
    """{program: {command: its page}}; a script has one page, whose command is None."""
    commands = help_text.commands_of(said(program))
    pages = {'yamata': {name: help_text.parse(f'yamata {name}', said(program, name)) for name in commands}}
    for script in scripts:
        name = f'yamata-{os.path.basename(script)}'
        pages[name] = {None: help_text.parse(name, said(script))}
    return pages, commands


def main(out, program, version, data, documents, *scripts):
    out = pathlib.Path(out)
    shutil.rmtree(out, ignore_errors=True)
    pages, commands = pages_of(program, scripts)
    more = {'FILES': [f'.TP\n{manual.escaped(data)}\nmodels of the demonstration, experiments and scripts',
                      f'.TP\n{manual.escaped(documents)}\nthe documentation']}
    every = [page for of_program in pages.values() for page in of_program.values()]
    names = [manual.name_of(page) for page in every]
    for page, others in [(program_page(commands), names), *((page, ['yamata']) for page in every)]:
        write(out / f'man/{manual.name_of(page)}.1', located(manual.page_text(page, version, more, others), data, documents))
    for shell, (text_of, file_name) in completions.SHELLS.items():
        for name, of_program in pages.items():
            write(out / shell / file_name.format(name), text_of(name, of_program))


if __name__ == '__main__':
    main(*sys.argv[1:])
