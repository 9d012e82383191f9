"""Errors that the user has to fix."""


class Problem(Exception):
    """One line: what is wrong, the cause, the remedy. `code` is the exit code: 1 bad usage or experiment file, 2 bad results."""

    def __init__(self, text, code=1):
        super().__init__(text)
        self.code = code
