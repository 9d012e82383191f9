"""A `yamata engine` that an experiment has started: its protocol (docs/serving.md) over two pipes."""
import contextlib
import json
import queue
import subprocess
import threading
import time

from common import as_root

from . import running


class EngineFailed(Exception):
    """Why an engine cannot be measured."""


class EngineProcess(contextlib.AbstractContextManager):
    """The process, until the end of the block. Its errors go to the file `err`."""

    def __init__(self, command, err):
        self.err, self.lines, self.number = err, queue.SimpleQueue(), 0
        with open(err, 'wb') as errors:
            try:
                self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
                                                env=as_root.environment(), start_new_session=True,
                                                preexec_fn=running.end_with_parent)
            except OSError as error:
                raise EngineFailed(f'cannot start {command[0]}: {error.strerror}') from None
        threading.Thread(target=self.read, daemon=True).start()

    def __exit__(self, kind, *_):
        """It ends by itself, or is ended."""
        try:
            if kind is None:
                self.send(do='stop')
                self.process.wait(running.GRACE_S)
        except (EngineFailed, subprocess.TimeoutExpired):
            pass
        finally:
            if running.members(self.process.pid):
                running.end(self.process)
            with contextlib.suppress(OSError):
                self.process.stdin.close()

    def read(self):
        """In a thread of its own, so that each line has the time at which it came."""
        for line in self.process.stdout:
            with contextlib.suppress(ValueError):  # whatever else is said there
                if isinstance(message := json.loads(line), dict):
                    self.lines.put((time.monotonic(), message))
        self.lines.put((time.monotonic(), None))

    def now(self):
        return time.monotonic()

    def send(self, **message):
        try:
            self.process.stdin.write(json.dumps(message).encode() + b'\n')
            self.process.stdin.flush()
        except OSError:
            raise EngineFailed(self.why()) from None

    def submit(self, **message):
        """Sends a request, and returns its id."""
        self.number += 1
        self.send(do='submit', id=self.number, **message)
        return self.number

    def next(self, latest):
        """(time, message) of the next line; None: none has come at the time `latest`. Raises EngineFailed if none will come."""
        try:
            at, message = self.lines.get(timeout=max(0, latest - self.now()))
        except queue.Empty:
            return None
        if message is None:
            raise EngineFailed(self.why())
        return at, message

    def wait(self, kind, deadline_s):
        """The next message of a kind. Raises EngineFailed."""
        latest = self.now() + deadline_s
        while got := self.next(latest):
            if got[1].get('is') == kind:
                return got[1]
            if got[1].get('is') == 'error':
                raise EngineFailed(got[1].get('message', 'it said an error'))
        raise EngineFailed(f'killed at its deadline of {deadline_s:g} s')

    def tokenize(self, text, bos, deadline_s):
        self.send(do='tokenize', id='text', text=text, bos=bos)
        return self.wait('tokenized', deadline_s)['ids']

    def why(self):
        """Why it has ended."""
        try:
            code = self.process.wait(running.GRACE_S)
        except subprocess.TimeoutExpired:
            return 'it says nothing any more'
        return running.failure(code, self.err) or 'it has ended'
