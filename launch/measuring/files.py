"""Files of results, which are either complete or the older ones; and which existing files a script may replace."""
import os
import pathlib
import re

from .problem import Problem

BEGIN_BYTES = 4096  # of a file, which show what it is
# Expression and name, for refuse_foreign.
GGUF = rb'^GGUF', 'a GGUF file'
SAFETENSORS = rb'(?s)^.{8}\{', 'a safetensors file'
FIGURES = {'.png': (rb'^\x89PNG', 'a PNG'), '.svg': (rb'<svg', 'an SVG'), '.pdf': (rb'^%PDF', 'a PDF')}


def part_of(path):
    """Where the file at the path is written until it is complete. The name is one that no file of the user's has."""
    return f'{path}.yamata-part'


def begin_of(path):
    with open(path, 'rb') as file:
        return file.read(BEGIN_BYTES)


def refuse_foreign(path, own, what, remedy):
    """Raises Problem if there is a file at the path whose beginning does not match the regular expression `own`: the script would replace
    what it has not written. `what`: the files that it may replace. Empty files, devices and pipes are never refused."""
    try:
        begin = begin_of(path) if os.path.isfile(path) else b''
    except OSError as error:
        raise Problem(f'{path} cannot be read ({error.strerror}); {remedy}') from None
    if begin and not re.search(own, begin):
        raise Problem(f'{path} exists and is not {what}, so it is not replaced; {remedy}')


def write_whole(path, data, remedy='free some space, or choose another folder with --out'):
    """Replaces the file in one step: after a crash, it is either the old one or the new one. Raises Problem (2) if it cannot be written."""
    path = pathlib.Path(path)
    temporary = pathlib.Path(part_of(path))
    try:
        with open(temporary, 'wb') as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise Problem(f'{path} cannot be written ({error.strerror}); {remedy}', 2) from None
