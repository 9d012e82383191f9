"""What --state keeps of requests with an Idempotency-Key: each one's messages of the engine, so that the same request goes on, or is
answered again, after this server was killed."""
import asyncio
import contextlib
import hashlib
import json
import os
import pathlib

from common.problem import Problem

from .http_request import HttpError, encoded

MOST_FILES, MOST_BYTES = 256, 256 << 20  # the oldest are removed
SYNC_S = 0.25                            # what is younger may be lost with the machine; it is generated again
KEY_CHARACTERS = 256
SUFFIX = '.request'


def name_of(key):
    return hashlib.sha256(key.encode()).hexdigest()[:32] + SUFFIX


def read(path):
    """The lines of a file, without a last one that is not whole. Raises ValueError, with the number of a damaged line."""
    *lines, _ = path.read_bytes().split(b'\n')
    values = []
    for number, line in enumerate(lines, 1):
        try:
            value = json.loads(line)
        except ValueError:
            value = None
        is_first = isinstance(value, dict) and {'body', 'asked'} <= value.keys()
        if not (is_first if number == 1 else isinstance(value, list) and len(value) == 2):
            raise ValueError(number)
        values.append(value)
    return values


class Record:
    """A request that is open. `asked`: its messages to the engine; `came`: [(index, message)] of its texts so far."""

    def __init__(self, journal, path, asked, came):
        self.journal, self.path, self.asked, self.came = journal, path, asked, came
        self.file = open(path, 'ab', buffering=0)

    def add(self, index, message):
        """Nothing after the end, or where nothing can be written any more."""
        if self.file.closed:
            return
        try:
            self.file.write(encoded([index, message]) + b'\n')
            self.journal.unsynced.add(self)
        except OSError:
            self.close()

    def kept(self, index):
        """The ids of a text so far."""
        return [token for its, message in self.came if its == index and message['is'] == 'text' for token in message.get('ids', ())]

    def has_ended(self, index):
        return any(its == index and message['is'] == 'done' for its, message in self.came)

    def close(self):
        self.journal.open_paths.discard(self.path)
        self.journal.unsynced.discard(self)
        if not self.file.closed:
            with contextlib.suppress(OSError):
                os.fdatasync(self.file.fileno())
            self.file.close()


class Journal:
    """`folder`: that of --state; `model`: what the texts depend on besides their requests. Raises Problem if a file is damaged."""

    def __init__(self, folder, model):
        self.folder, self.model, self.open_paths, self.unsynced, self.syncing = pathlib.Path(folder), model, set(), set(), None
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            for path in self.files():
                read(path)
        except ValueError as error:
            raise Problem(f'{path} is damaged in line {error}; remove it', 2) from None
        except FileExistsError:
            raise Problem(f'--state {folder} is a file; name a folder') from None
        except OSError as error:
            raise Problem(f'--state {folder} cannot be used ({error.strerror}); name another folder') from None

    def files(self):
        """The oldest first."""
        return sorted(self.folder.glob('*' + SUFFIX), key=lambda path: path.stat().st_mtime)

    def open(self, key, body, asked):
        """The record of a request: that of an earlier one with the same key, or a new one. `body`: a digest. Raises HttpError."""
        if len(key) > KEY_CHARACTERS:
            raise HttpError(400, f'the Idempotency-Key has more than {KEY_CHARACTERS} characters', 'invalid_value')
        path, about = self.folder / name_of(key), {'body': f'{self.model} {body}', 'asked': asked}
        if path in self.open_paths:
            raise HttpError(409, 'a request with this Idempotency-Key is open', 'idempotency_in_progress')
        try:
            first, *came = read(path) if path.exists() else [None]
            if first and first['body'] != about['body']:
                raise HttpError(422, 'this Idempotency-Key was used with another request or model', 'idempotency_mismatch')
            if first:
                self.drop_torn_line(path)
            else:
                self.make_room()
                path.touch(mode=0o600)
            record = Record(self, path, first['asked'] if first else asked, came)
            if not first:
                record.file.write(encoded(about) + b'\n')
        except ValueError as error:
            raise HttpError(500, f'{path.name} of --state is damaged in line {error}; remove it', 'state_damaged') from None
        except OSError as error:
            raise HttpError(500, f'--state cannot be written: {error.strerror}', 'state_unusable') from None
        self.open_paths.add(path)
        if not self.syncing:
            self.syncing = asyncio.get_running_loop().create_task(self.sync())
        return record

    def drop_torn_line(self, path):
        data = path.read_bytes()
        if not data.endswith(b'\n'):
            os.truncate(path, data.rfind(b'\n') + 1)

    def make_room(self):
        files = self.files()
        size = sum(path.stat().st_size for path in files)
        for path in files:
            if len(files) < MOST_FILES and size < MOST_BYTES:
                return
            if path not in self.open_paths:
                size -= path.stat().st_size
                path.unlink()
                files = files[1:]

    async def sync(self):
        while True:
            await asyncio.sleep(SYNC_S)
            for record in list(self.unsynced):
                self.unsynced.discard(record)
                with contextlib.suppress(OSError, ValueError):  # it has just been closed, or the disk is full
                    await asyncio.to_thread(os.fdatasync, record.file.fileno())
