"""What scripts share that play one scenario per seed and read along with what a job writes."""
import os
import select
import subprocess
import time

PATIENCE = float(os.environ.get('YAMATA_PATIENCE', 1))  # times as long as usual may a job take to do its work: sanitized programs are slow


class Reader:
    """Reads along with the text that a job writes, for a time that may begin anew with whatever comes."""

    def __init__(self, job, deadline_s):
        self.job, self.end, self.silence_s, self.text = job, time.monotonic() + deadline_s, None, b''
        self.heard = time.monotonic()  # when something came, last

    def allow_silence(self, seconds):
        """From now on a job has time as long as its text comes on."""
        self.end, self.silence_s = time.monotonic() + seconds, seconds

    def left_s(self):
        return max(0, self.end - time.monotonic())

    def read(self, size):
        """Until so many bytes have been written in all; False where the job ends before."""
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
    """The program's own lines among what a launcher wrote to stderr, warnings apart."""
    return [line for line in errors.splitlines() if line.startswith('yamata:') and not line.startswith('yamata: warning:')]


def seeds_of(text):
    """1-3,7 as numbers."""
    seeds = []
    for part in text.split(','):
        first, _, last = part.partition('-')
        seeds += range(int(first), int(last or first) + 1)
    return seeds
