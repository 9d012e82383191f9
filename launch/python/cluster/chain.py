"""One file to several machines at once: this one sends it to the first, each passes it on to the next while it comes (relay.pl). Between
machines it goes over TCP, and whoever sends must know a token that ssh has brought; the sums of what has come return over ssh."""
import hashlib
import pathlib
import queue
import secrets
import shlex
import socket
import subprocess
import threading

from . import remote
from .hostfile import FIRST_DAEMON_PORT, FIRST_PORT

RELAY = pathlib.Path(__file__).with_name('relay.pl')
PIECE_BYTES = 1 << 20
CONNECT_S, END_S, START_S = 3, 3, 20
SSH_FAILED = 255


class Closed(Exception):
    """The chain cannot be connected; the text says where."""


class Link:
    """A machine of a chain. `is_kept`: it has the file now; `why`: it cannot have it; neither: it may get it from another chain. `come`:
    bytes that it has received."""

    def __init__(self, host, address):
        self.host, self.address, self.token = host, address, secrets.token_hex(16)
        self.port, self.joined, self.linked, self.gave_up, self.ended = None, False, False, False, False
        self.why, self.sum, self.is_kept, self.come, self.process = '', None, False, 0, None

    def start(self, config, words, events):
        command = shlex.join(['perl', '-e', RELAY.read_text(), *map(str, words)])
        self.process = subprocess.Popen(remote.command_for(self.host, config, [command], remote.NOTICES_LOSS), stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0, start_new_session=True)
        threading.Thread(target=self.listen, args=[events], daemon=True).start()

    def listen(self, events):
        for line in self.process.stdout:
            events.put((self, line.decode(errors='replace').split(None, 1)))
        said = self.process.stderr.read().decode(errors='replace').strip().splitlines()
        events.put((self, ['end', (said or ['no reason is given'])[-1][:150]]))

    def tell(self, *words):
        try:
            self.process.stdin.write(' '.join(map(str, words)).encode() + b'\n')
        except (OSError, ValueError):  # its end is the next event
            pass

    def end(self):
        """It removes what is not complete."""
        self.gave_up = True
        try:
            self.process.stdin.close()
        except OSError:
            pass

    def is_open(self):
        return not (self.ended or self.why or self.is_kept)


class Sender:
    """Sends the file, in a thread of its own; then `sum` is that of what was sent. `why`: the file could not be read."""

    def __init__(self, path, size, write, close, events):
        self.path, self.size, self.write, self.close, self.events = path, size, write, close, events
        self.sum, self.why = None, ''
        threading.Thread(target=self.run, daemon=True).start()

    def pieces(self):
        left = self.size
        try:
            with open(self.path, 'rb') as file:
                while left and (piece := file.read(min(left, PIECE_BYTES))):
                    yield piece
                    left -= len(piece)
            self.why = 'it has become shorter' if left else ''
        except OSError as error:
            self.why = error.strerror

    def run(self):
        digest = hashlib.sha256()
        try:
            for piece in self.pieces():
                digest.update(piece)
                self.write(piece)
            self.sum = None if self.why else digest.hexdigest()
        except (OSError, ValueError):  # the first machine says why
            pass
        if not self.sum:
            self.close()
        self.events.put((None, ['sent']))


class Chain:
    """`target`: the file on the machines, below their homes or absolute. `show(bytes)`: so many have come, over all machines."""

    def __init__(self, path, target, links, config, show):
        self.path, self.target, self.links, self.config, self.show = path, target, links, config, show
        self.started, self.stat = list(links), path.stat()
        self.events, self.sender, self.socket = queue.Queue(), None, None

    def run(self):
        """When it ends, each link says what came of it. Raises Closed, before anything is sent."""
        try:
            if self.links[0].address is None:
                self.start()
                self.sender = Sender(self.path, self.stat.st_size, self.write_to_first, self.links[0].end, self.events)
            else:
                self.start(FIRST_PORT, FIRST_DAEMON_PORT - 1)
                if not self.connect():
                    return
                self.sender = Sender(self.path, self.stat.st_size, self.socket.sendall, self.cut, self.events)
            while any(link.is_open() for link in self.links):
                self.take(*self.events.get())
        finally:
            self.end()

    def start(self, *ports):
        """All wait for what comes."""
        size, mode = self.stat.st_size, f'{self.stat.st_mode & 0o777:o}'
        for link in self.links:
            link.start(self.config, [self.target, size, mode, *([link.address] if ports else []), *ports], self.events)
            if ports:
                link.tell(link.token)

    def write_to_first(self, piece):
        left = memoryview(piece)
        while left:
            left = left[self.links[0].process.stdin.write(left):]

    def connect(self):
        """Those that fail before are left out; whether there are others. Raises Closed."""
        self.take_until(lambda link: link.port)
        self.links = [link for link in self.links if link.is_open()]
        for link, after in zip(self.links, self.links[1:]):
            link.tell('next', after.address, after.port, after.token)
        self.take_until(lambda link: link.linked or link is self.links[-1])
        if not self.links:
            return False
        first = self.links[0]
        try:
            self.socket = socket.create_connection((first.address, first.port), CONNECT_S)
            self.socket.settimeout(None)
            self.socket.sendall(first.token.encode())
        except OSError as error:
            raise Closed(f'{first.host.name} cannot be reached on port {first.port} from here ({error.strerror or error})') from None
        self.take_until(lambda link: link.joined)
        return True

    def take_until(self, is_done):
        while not all(is_done(link) or not link.is_open() for link in self.links):
            try:
                self.take(*self.events.get(timeout=START_S))
            except queue.Empty:
                raise Closed(f'it was not connected within {START_S} s') from None

    def take(self, link, said):
        kind, more = said[0] if said else '', said[1].strip() if len(said) > 1 else ''
        if link is None:
            self.check_sums()
        elif kind == 'port':
            link.port = int(more)
        elif kind == 'joined':
            link.joined = True
        elif kind == 'linked':
            link.linked = True
        elif kind == 'closed':
            after = self.links[self.links.index(link) + 1]
            raise Closed(f'{after.host.name} cannot be reached on port {after.port} from {link.host.name} ({more})')
        elif kind == 'at':
            link.come = int(more)
            self.show(sum(its.come for its in self.links))
        elif kind == 'sum':
            link.sum, link.come = more, self.stat.st_size
            self.check_sums()
        elif kind == 'kept':
            link.is_kept = True
        elif kind == 'failed':
            link.why = more
        elif kind in ('short', 'busy'):
            link.gave_up = True
        elif kind == 'end':
            self.take_end(link, more)

    def take_end(self, link, why):
        """Of a machine that is lost, no other hears: the one before it goes on alone, those behind it get nothing more."""
        link.ended = True
        if link.is_kept or link.process.wait() != SSH_FAILED:
            link.why = link.why or ('' if link.is_kept or link.gave_up else f'it has stopped ({why})')
            return
        if not link.gave_up:
            link.why = link.why or f'it was lost ({why})'
        number = self.links.index(link)
        if number:
            self.links[number - 1].tell('alone')
        elif self.socket:
            self.cut()
        for its in self.links[number + 1:]:
            if not its.sum:
                its.end()

    def check_sums(self):
        """What has come as it was sent is kept."""
        for link in self.links:
            if link.sum and link.is_open() and self.sender and self.sender.sum:
                if link.sum == self.sender.sum:
                    link.tell('keep')
                else:
                    link.why = 'other bytes have come than were sent'
                    link.end()

    def cut(self):
        try:
            self.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def end(self):
        """Nothing of it is left running."""
        if self.socket:
            self.cut()
            self.socket.close()
        started = [link for link in self.started if link.process]
        for link in started:
            link.end()
        for link in started:
            try:
                link.process.wait(END_S)
            except subprocess.TimeoutExpired:
                link.process.kill()
