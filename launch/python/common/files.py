"""Files of results, which are either complete or the older ones; and which existing files a script may replace."""
import contextlib
import errno
import json
import os
import pathlib
import re

from .problem import Problem

BEGIN_BYTES = 4096  # of a file, which show what it is
# For refuse_foreign: an expression for the beginning, or a function of the path; and a name.
GGUF = rb'^GGUF', 'a GGUF file'
FIGURES = {'.png': (rb'^\x89PNG', 'a PNG'), '.svg': (rb'<svg', 'an SVG'), '.pdf': (rb'^%PDF', 'a PDF')}


def part_of(path):
    """Where the file at the path is written until it is complete. The name is one that no file of the user's has."""
    return f'{path}.yamata-part'


@contextlib.contextmanager
def reading(path, remedy, code=2):
    """Raises Problem, naming the file, if it cannot be read or is too large for the memory."""
    try:
        yield
    except (OSError, MemoryError) as error:
        raise Problem(f'{path} cannot be read ({getattr(error, "strerror", "not enough memory")}); {remedy}', code) from None


def read_json(path, remedy):
    """Raises Problem (2) if the file cannot be read, or is not JSON."""
    with reading(path, remedy):
        try:
            return json.loads(pathlib.Path(path).read_bytes())
        except (ValueError, RecursionError):
            raise Problem(f'{path} is not JSON; {remedy}', 2) from None


def real_place(path, remedy):
    """The path without links: the place of a file that is replaced in one step. Raises Problem if a folder, a device or a named pipe is
    there."""
    real = os.path.realpath(path)
    if os.path.exists(real) and not os.path.isfile(real):
        raise Problem(f'{path} is no regular file; {remedy}')
    return real


def begin_of(path):
    with open(path, 'rb') as file:
        return file.read(BEGIN_BYTES)


def safetensors_header(path):
    """The JSON object with whose length, and with which, the file begins; None if it does not."""
    with open(path, 'rb') as file:
        length = int.from_bytes(file.read(8), 'little')
        if length > os.path.getsize(path) - 8:
            return None
        try:
            header = json.loads(file.read(length))
        except (ValueError, RecursionError):
            return None
    return header if isinstance(header, dict) else None


def has_safetensors_header(path):
    return safetensors_header(path) is not None


SAFETENSORS = has_safetensors_header, 'a safetensors file'


def refuse_foreign(path, own, what, remedy):
    """Raises Problem if there is a file at the path whose beginning does not match the regular expression `own`, or for which the function
    `own` is false: the script would replace what it has not written. `what`: the files that it may replace. Empty files, devices and pipes
    are never refused."""
    with reading(path, remedy, 1):
        begin = begin_of(path) if os.path.isfile(path) else b''
        foreign = begin and not (own(path) if callable(own) else re.search(own, begin))
    if foreign:
        raise Problem(f'{path} exists and is not {what}, so it is not replaced; {remedy}')


def write_whole(path, data, remedy='free some space, or choose another folder with --out', code=2):
    """Replaces the file in one step: after a crash, it is either the old one or the new one. A device or a named pipe is written to. Raises
    Problem (`code`) if it cannot be written."""
    replaces = os.path.isfile(path) or not os.path.exists(path)
    real = os.path.realpath(path)
    place = part_of(real) if replaces else path
    try:
        with open(place, 'wb') as file:
            file.write(data)
            file.flush()
            if replaces:
                os.fsync(file.fileno())
        if replaces:
            os.replace(place, real)
    except OSError as error:
        if replaces:
            with contextlib.suppress(OSError):
                os.unlink(place)
        remedy = 'raise ulimit -f' if error.errno == errno.EFBIG else remedy
        raise Problem(f'{path} cannot be written ({error.strerror}); {remedy}', code) from None
