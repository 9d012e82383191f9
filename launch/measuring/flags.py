"""The flags of a script."""
import argparse
import os
import sys


class Parser(argparse.ArgumentParser):
    """Reports bad usage in one line with exit code 1, like yamata itself. `description`: the script's docstring."""

    def __init__(self, description=None, **rest):
        super().__init__(**{'prog': f'launch/{os.path.basename(sys.argv[0])}', **rest}, description=description,
                         formatter_class=argparse.RawDescriptionHelpFormatter)

    def _print_message(self, message, file=None):
        (file or sys.stderr or sys.stdout).write(message)  # argparse's own hides that it cannot be written

    def error(self, message):
        script = self.prog.split()[0].removeprefix('launch/')
        self.exit(1, f'{script}: {message}; see {self.prog} --help\n')
