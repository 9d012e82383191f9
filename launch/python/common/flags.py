"""The flags of a script."""
import argparse
import math
import re
import sys

from . import places


def number(kind, least, most=math.inf):
    """The type of a flag whose value is a number of `kind`, int or float."""
    def read(text):
        try:
            value = kind(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"'{text}' is not a {'whole ' if kind is int else ''}number") from None
        if kind is float and not math.isfinite(value):
            raise argparse.ArgumentTypeError(f'{text} is not finite')
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f'{text} is not between {least} and {most}' if most < math.inf
                                             else f'{text} is less than {least}')
        return value
    read.__name__ = 'number'
    return read


class Parser(argparse.ArgumentParser):
    """Reports bad usage in one line with exit code 1, like yamata itself. `description`: the script's docstring."""

    def __init__(self, description=None, **rest):
        super().__init__(**{'prog': places.command(), **rest}, description=description,
                         formatter_class=argparse.RawDescriptionHelpFormatter)

    def parse_known_args(self, args=None, namespace=None):
        args = sys.argv[1:] if args is None else list(args)
        for word in args[:args.index('--') if '--' in args else None]:
            flag = word.partition('=')[0]
            if re.match('-[a-z]', flag) and flag not in self._option_string_actions and f'-{flag}' in self._option_string_actions:
                self.error(f"'{flag}' is no flag; write -{flag}")  # argparse would take its first letter for one
        return super().parse_known_args(args, namespace)

    def format_help(self):
        return places.as_written(super().format_help())

    def _print_message(self, message, file=None):
        (file or sys.stderr or sys.stdout).write(message)  # argparse's own hides that it cannot be written

    def error(self, message):
        script = self.prog.split()[0].removeprefix('launch/')
        self.exit(1, f'{script}: {places.as_written(message)}; see {self.prog} --help\n')
