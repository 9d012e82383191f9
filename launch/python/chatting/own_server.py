"""Starts launch/serve for one chat, and waits until a server has loaded its model."""
import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time

from common import interrupt, places
from common.problem import Problem

LOOK_S = 0.2
END_S = 20  # for the server to end


def free_port():
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        return probe.getsockname()[1]


def end_with_parent():
    """Linux ends this process if the one that started it is killed."""
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)


class OwnServer(contextlib.AbstractContextManager):
    """launch/serve with some flags, on a port of its own, until the end of the block. `url`: where it is. Of what it says, warnings are
    passed on to standard error before the chat begins, and later the cause of its end: all else would be in the middle of the chat."""

    def __init__(self, flags):
        self.port = free_port()
        self.url = f'http://127.0.0.1:{self.port}'
        self.said, self.heard, self.served = tempfile.TemporaryFile(), 0, False
        with interrupt.postponed():
            # A session of its own: Ctrl-C ends an answer, not the server.
            self.process = subprocess.Popen([places.LAUNCH / 'serve', *flags, '--port', str(self.port)], stdin=subprocess.DEVNULL,
                                            stdout=subprocess.DEVNULL, stderr=self.said, start_new_session=True,
                                            preexec_fn=end_with_parent)

    def __exit__(self, *_):
        with interrupt.postponed():
            for number in signal.SIGTERM, signal.SIGTERM, signal.SIGKILL:
                if self.process.poll() is None:
                    self.process.send_signal(number)
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        self.process.wait(END_S)

    def check_after_failure(self, client):
        """The same if it no longer serves, when it has ended."""
        with contextlib.suppress(Problem):
            if client.get('/health')[0] == 200:
                return
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(END_S)
        self.check()

    def check(self):
        """Raises Problem with its exit code if it has ended, and says why."""
        if (code := self.process.poll()) is None:
            return
        lines, why = self.news(), ''
        if self.served:
            why = ''.join(': ' + line.removeprefix('serve: ') for line in lines if line.startswith('serve: '))
        else:
            sys.stderr.write(''.join(line + '\n' for line in lines))
        raise Problem('the server has ended' + why, code if code > 0 else 2)

    def serves(self):
        """Passes its warnings on."""
        self.served = True
        for line in self.news():
            if line.startswith(('warning: ', 'machine ')):
                print(line, file=sys.stderr)

    def news(self):
        """The lines that it has said since the last call."""
        data = os.pread(self.said.fileno(), os.fstat(self.said.fileno()).st_size - self.heard, self.heard)
        self.heard += len(data)
        return data.decode(errors='replace').splitlines()


def wait_until_loaded(client, check=None):
    """Waits until the server says that its model is loaded, and says on a terminal how far it is. Raises Problem (2) if there is no server.
    `check()`: it is about to start, unless this raises Problem."""
    shown = False
    while True:
        if check:
            check()
        try:
            status, health = client.get('/health')
        except Problem:
            if not check:
                raise
            status, health = 503, {}
        if status != 503:
            break
        if sys.stderr.isatty() and 'percent' in health:
            print(f'\r\x1b[Kloading the model: {health["percent"]} %', end='', file=sys.stderr, flush=True)
            shown = True
        time.sleep(LOOK_S)
    if shown:
        print('\r\x1b[K', end='', file=sys.stderr, flush=True)
