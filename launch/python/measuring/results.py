"""The folder of an experiment: experiment.toml, results.csv (a row per finished run), runs/ (JSON and output of each run)."""
import csv
import errno
import fcntl
import io
import os
import pathlib

from common import interrupt

from . import plan
from common.files import reading, write_whole
from common.problem import Problem

NEEDED = {'run', 'model', 'cluster', 'strategy', 'prompt', 'error', 'fingerprint'}  # columns of every results.csv
FIGURES = ('decode_tokens_per_s', 'nodes', 'rss_bytes_per_rank', 'mapped_bytes_per_rank')  # numbers, one or with ; between them


def line_of(values):
    """A CSV row as one physical line: an incomplete row has no line end."""
    out = io.StringIO()
    csv.writer(out, lineterminator='\n').writerow(' '.join(str(value).split()) for value in values)
    return out.getvalue().encode()


def read_rows(folder):
    """(header, rows) of a results folder. Raises Problem (2) if they cannot be read, or launch/experiment did not write them."""
    path = pathlib.Path(folder) / 'results.csv'
    with reading(path, 'name the folder that launch/experiment wrote'):
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            text = 'binary'
    whole = text[:text.rfind('\n') + 1]  # a row that was being written during a crash has no end
    reader = csv.DictReader(io.StringIO(whole))
    header = list(reader.fieldnames or [])
    if text.strip() and not NEEDED <= set(header):
        raise Problem(f'{path} is not a table of launch/experiment; name a folder that it wrote', 2)
    rows = []
    for row in reader:
        if wrong := damage(row):
            raise Problem(f'{path}: line {reader.line_num} is damaged: {wrong}; correct the line, or remove it to repeat the run', 2)
        rows.append(row)
    return header, rows


def damage(row):
    """What is wrong with a row of csv.DictReader; empty: nothing."""
    if None in row or None in row.values():
        return f'it has {"more" if None in row else "fewer"} columns than the first line'
    for key in FIGURES:
        if row.get(key) or key == 'decode_tokens_per_s' and not row['error']:
            try:
                [float(word) for word in row.get(key, '').split(';')]
            except ValueError:
                return f"{key} is '{row.get(key, '')}'"
    return ''


class Results:
    """The rows on disk. Only one process writes: the lock is held until the object is closed."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder).resolve()
        self.path = self.folder / 'results.csv'
        self.toml = self.folder / 'experiment.toml'
        try:
            (self.folder / 'runs').mkdir(parents=True, exist_ok=True)
            self.lock = open(self.folder / 'lock', 'a')
        except OSError as error:
            raise Problem(f'{self.folder} cannot be written ({error.strerror}); choose another folder with --out') from None
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Problem(f'another launch/experiment is writing to {self.folder}; wait for it, or choose another folder '
                          'with --out') from None
        self.header, self.rows = [], []
        if self.path.exists():
            self.header, self.rows = read_rows(self.folder)
            self.rewrite()  # without an incomplete row

    def close(self):
        self.lock.close()

    def begin(self, file, extend):
        """Keeps a copy of the experiment file; refuses a file that differs from the copy."""
        if self.toml.exists() and not extend and plan.read(self.toml) != plan.read(file):
            raise Problem(f'{self.folder} has the results of another experiment, or of {file} before it was changed (compare it with '
                          f'{self.toml}); choose another folder with --out, or give --extend to keep the rows and add what is new')
        write_whole(self.toml, pathlib.Path(file).read_bytes())

    def check_meaning(self, runs):
        """Checks that the configuration of each row still means what was measured."""
        fingerprints = {row['run']: row['fingerprint'] for row in self.rows}
        for run in runs:
            if fingerprints.get(run.id, run.fingerprint) != run.fingerprint:
                raise Problem(f"'{run.label}' has a row in {self.path}, but would now run another command or prompt; give what has changed "
                              'another name, or choose another folder with --out')

    def forget_failed(self):
        self.rows = [row for row in self.rows if not row['error']]
        self.rewrite()

    def rewrite(self):
        lines = [line_of(self.header), *(line_of(row.get(key) or '' for key in self.header) for row in self.rows)]
        write_whole(self.path, b''.join(lines))

    def append(self, row):
        """Adds a row; when this returns, the complete row is on disk."""
        row = {key: '' if value is None else str(value) for key, value in row.items()}
        with interrupt.postponed():
            self.write(row)

    def write(self, row):
        self.rows.append(row)
        try:
            if row.keys() - set(self.header):
                self.header += [key for key in row if key not in self.header]
                self.rewrite()
                return
            line = line_of(row.get(key, '') for key in self.header)
            with open(self.path, 'ab', buffering=0) as file:
                if file.write(line) != len(line):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                os.fsync(file.fileno())
        except OSError as error:  # an incomplete row is removed when the folder is opened again
            raise Problem(f'{self.path} cannot take another row ({error.strerror}); free some space, and run the same command to continue',
                          2) from None
