"""Finds the line that names the cause in what a failed command wrote."""
import re

RULE = re.compile(r'-{60,}')  # mpirun puts a message between two of them
USAGE = re.compile(r'usage:', re.IGNORECASE)
ADVICE = re.compile(r'(usage:|(for more|see|try|type|run|use)\b.*(-h\b|help|usage))', re.IGNORECASE)
MORE_HELP = re.compile(r'\[\S+\] (\d+ more process|Set MCA parameter)')  # mpirun's, about messages of other ranks


def paragraphs(lines):
    """The messages of mpirun between rules, each the lines of its first paragraph in one, and the other lines."""
    messages, others, inside, open_paragraph = [], [], False, False
    for line in map(str.strip, lines):
        if RULE.fullmatch(line):
            inside, open_paragraph = not inside, True
            messages += [''] if inside else []
        elif not inside:
            others += [line] if line else []
        elif open_paragraph and line:
            messages[-1] = f'{messages[-1]} {line}'.strip()
        elif messages[-1] and not messages[-1].endswith(':'):
            open_paragraph = False
    return [message for message in messages if message], others


def without_usage(lines):
    """The lines without advice on how to call the program, before which or after which it names the error."""
    first = next((i for i, line in enumerate(lines) if USAGE.match(line)), 0)
    if first and 'error' not in lines[-1].lower():
        lines = lines[:first]
    return [line for line in lines if not ADVICE.match(line) and not MORE_HELP.match(line)] or lines


def cause(text):
    """The line that names the cause of a failure: the first that looks like an error of Yamata, or else the last that is neither a warning
    nor advice, or else the first message of mpirun. Empty if there is none."""
    messages, others = paragraphs(text.splitlines())
    for line in others:
        if line.startswith('yamata:') and 'warning' not in line:
            return line
    others = without_usage(others)
    errors = [line for line in others if 'warning' not in line.lower()]
    messages.sort(key=lambda message: message.startswith('Primary job'))  # it only says that a rank failed
    return next(iter([*errors[-1:], *messages, *others[-1:]]), '')
