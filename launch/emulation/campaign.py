"""Common parts of scripts that run one random scenario per seed and read a job's output while it runs."""
import argparse
import csv
import os
import re
import select
import subprocess
import sys
import time

from common.files import refuse_foreign
from common.problem import Problem

PATIENCE = float(os.environ.get('YAMATA_PATIENCE', 1))  # factor for all time limits: programs built with sanitizers are slow


def check_table(path):
    """Ends the script with a line if --csv would replace a file that is no table of scenarios."""
    try:
        if path:
            refuse_foreign(path, rb'^seed,', 'a table of such runs', 'choose another place with --csv')
    except Problem as problem:
        sys.exit(f'{os.path.basename(sys.argv[0])}: {problem}')


def write_table(path, columns, rows):
    """A row per scenario; without a path, nothing. Ends the script with a line if the file cannot be written."""
    try:
        if path:
            with open(path, 'w', newline='') as file:
                writer = csv.DictWriter(file, columns)
                writer.writeheader()
                writer.writerows(rows)
    except OSError as error:
        sys.exit(f'{os.path.basename(sys.argv[0])}: {path} cannot be written ({error.strerror}); choose another place with --csv')


class Reader:
    """Reads a job's text while the job writes it, with a time limit that can be renewed by each output."""

    def __init__(self, job, deadline_s):
        self.job, self.end, self.silence_s, self.text = job, time.monotonic() + deadline_s, None, b''
        self.heard = time.monotonic()  # time of the last output

    def allow_silence(self, seconds):
        """From now on, the limit is `seconds` after the last output."""
        self.end, self.silence_s = time.monotonic() + seconds, seconds

    def left_s(self):
        return max(0, self.end - time.monotonic())

    def read(self, size):
        """Reads until `size` bytes have been written in total; False if the job ends before."""
        while len(self.text) < size:
            if not select.select([self.job.stdout], [], [], self.left_s())[0]:
                raise subprocess.TimeoutExpired(self.job.args, self.left_s())
            some = os.read(self.job.stdout.fileno(), 4096)
            if not some:
                return False
            self.text += some
            self.heard = time.monotonic()
            self.end = max(self.end, self.heard + (self.silence_s or 0))
        return True


def complaints(errors):
    """Yamata's own lines in a launcher's stderr, without warnings."""
    return [line for line in errors.splitlines() if line.startswith('yamata:') and not line.startswith('yamata: warning:')]


def output_of(command):
    """What a program writes to standard output. Ends the script with the program's own line if it fails."""
    done = subprocess.run(command, capture_output=True)
    if done.returncode:
        errors = done.stderr.decode(errors='replace')
        line = [*complaints(errors), *errors.splitlines()[-1:], f'{command[0]} ended with exit code {done.returncode}'][0]
        sys.exit(f'{os.path.basename(sys.argv[0])}: {line}')
    return done.stdout


def seeds_of(text):
    """The numbers in a text such as 1-3,7. Raises argparse.ArgumentTypeError for anything else."""
    seeds = []
    for part in text.split(','):
        match = re.fullmatch(r'(\d+)(?:-(\d+))?', part)
        numbers = range(int(match[1]), int(match[2] or match[1]) + 1) if match else []
        if not numbers:
            raise argparse.ArgumentTypeError(f"'{part}' is no seed and no range of seeds; write a list such as 1-3,7")
        seeds += numbers
    return seeds
