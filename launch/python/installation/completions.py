"""Completions of commands and flags for bash, zsh and fish, written from what --help prints."""
import shlex


def words_of(page):
    return [name for flag in page.flags for name in flag.names]


def file_flags(page):
    return [name for flag in page.flags if flag.takes_file for name in flag.names]


def value_flags(page):
    return [name for flag in page.flags if flag.argument and not flag.takes_file for name in flag.names]


def bash_case(page, pattern):
    """Sets what is completed for the command that matches the pattern."""
    return (f"    {pattern}) flags={shlex.quote(' '.join(words_of(page)))} files={shlex.quote(' '.join(file_flags(page)))} "
            f"values={shlex.quote(' '.join(value_flags(page)))} ;;")


BASH = '''# bash completion for {program}
_{function}() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} flags= files= values=
  COMPREPLY=()
{first}  case "${{COMP_WORDS[1]}}" in
{cases}
  esac
  case " $values " in *" $before "*) return ;; esac
  case " $files " in *" $before "*) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- "$word"); return ;; esac
  case "$word" in
    -*) mapfile -t COMPREPLY < <(compgen -W "$flags" -- "$word") ;;
    *) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- "$word") ;;
  esac
}}
complete -F _{function} {program}
'''
FIRST = '''  if [ "$COMP_CWORD" -eq 1 ]; then
    mapfile -t COMPREPLY < <(compgen -W {words} -- "$word")
    return
  fi
'''


def bash(program, pages):
    """`pages`: {command: its page}; for a script, the command is None."""
    first = '' if None in pages else FIRST.format(words=shlex.quote(' '.join([*pages, '--help', '--version'])))
    return BASH.format(program=program, function=program.replace('-', '_'), first=first,
                       cases='\n'.join(bash_case(page, command or '*') for command, page in pages.items()))


def zsh_spec(flag, name):
    """A flag for _arguments. All may be repeated, since some may."""
    text = ''.join('\\' + c if c in '[]:\\' else c for c in flag.text)
    value = f':{flag.argument.split()[0].lower()}:{"_files" if flag.takes_file else ""}' if flag.argument else ''
    return shlex.quote(f'*{name}[{text}]{value}')


def zsh_arguments(page, indent):
    specs = [zsh_spec(flag, name) for flag in page.flags for name in flag.names]
    return f' \\\n{indent}  '.join(['_arguments', *specs, "'*:file:_files'"])


def zsh(program, pages):
    """Likewise."""
    if None in pages:
        return f'#compdef {program}\n{zsh_arguments(pages[None], "")}\n'
    commands = ' '.join(shlex.quote(f'{command}:{page.summary}') for command, page in pages.items())
    cases = '\n'.join(f'  {command})\n    {zsh_arguments(page, "    ")}\n    ;;' for command, page in pages.items())
    return f'''#compdef {program}
if (( CURRENT == 2 )); then
  local -a commands=({commands})
  _describe command commands
  return
fi
local command=$words[2]
shift words
(( CURRENT-- ))
case $command in
{cases}
esac
'''


def fish_flag(program, condition, flag):
    names = [f'-l {name[2:]}' if name.startswith('--') else f'-{"s" if len(name) == 2 else "o"} {name[1:]}' for name in flag.names]
    value = '' if not flag.argument else ' -r -F' if flag.takes_file else ' -x'
    text = "'" + flag.text.replace('\\', '\\\\').replace("'", "\\'") + "'"
    return f'complete -c {program}{condition} {" ".join(names)}{value} -d {text}'


def fish(program, pages):
    """Likewise."""
    lines = [f'# fish completion for {program}']
    for command, page in pages.items():
        if command:
            lines.append(f"complete -c {program} -f -n __fish_use_subcommand -a {command} -d {shlex.quote(page.summary)}")
        condition = f" -n '__fish_seen_subcommand_from {command}'" if command else ''
        lines += [fish_flag(program, condition, flag) for flag in page.flags]
    return '\n'.join(lines) + '\n'


SHELLS = {'bash': (bash, '{}'), 'zsh': (zsh, '_{}'), 'fish': (fish, '{}.fish')}  # what writes a program's file, and the file's name
