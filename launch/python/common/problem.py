"""Errors that the user has to fix."""
import os


class Problem(Exception):
    """One line: what is wrong, the cause, the remedy. `code` is the exit code: 1 bad usage or experiment file, 2 bad results."""

    def __init__(self, text, code=1):
        super().__init__(text)
        self.code = code


def whole(value, least):
    """Whether a value of a TOML or JSON file is a whole number from `least` up."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def refuse_overwriting(inputs, outputs, remedy='write to another file'):
    """Raises Problem if a file to write is one that is read, also under another name or through a link."""
    for path in inputs:
        for other in outputs:
            if os.path.isfile(path) and os.path.exists(other) and os.path.samefile(path, other):
                raise Problem(f'{path} would be overwritten; {remedy}')
