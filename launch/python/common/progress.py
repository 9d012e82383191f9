"""A bar on a terminal, for what takes a while."""
import sys


class Progress:
    """On a terminal; elsewhere only `line` prints. `count`: of the parts."""

    def __init__(self, count):
        self.count, self.width = count, 30 if sys.stderr.isatty() else 0

    def show(self, number, text):
        """So many parts are done."""
        self.show_share(number / self.count, f'{number}/{self.count} {text}')

    def show_share(self, share, text):
        if self.width:
            full = round(self.width * share)
            print(f"\r\x1b[K[{'#' * full}{' ' * (self.width - full)}] {text}", end='', file=sys.stderr, flush=True)

    def line(self, text):
        """In place of the bar."""
        print(('\r\x1b[K' if self.width else '') + text, file=sys.stderr, flush=True)

    def clear(self):
        if self.width:
            print('\r\x1b[K', end='', file=sys.stderr, flush=True)
