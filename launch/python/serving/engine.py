"""The process of `yamata engine`, alone or under mpirun, and the lines that go to it and come from it."""
import asyncio
import contextlib
import os
import re
import signal
import time

from common import as_root
from measuring.running import members

from . import lines, protocol
from .http_request import HttpError

SILENCE_S = 4   # without a line from an engine that serves, which sends one every half second: it is lost
START_SILENCE_S = 30  # the same for one that starts: mpirun reaches all machines before its first line
TICK_S = 0.5
KILL_S = 3.0    # between the request to end and the kill
TIMEOUT_S = 20  # the engine's --timeout: a rank may be silent for so long until all have loaded
SERVING_S = 3   # then for so long: clients wait
CUT_S = 0.25    # between the request to end and the kill of what is lost already
# What names the machine of a loss: an error of a rank, of its guard, or of mpirun. After a kill the job is over, though mpirun takes 2 s.
KILLED = re.compile(r'yamata: rank \d+ \([^)]*\) was killed by ')
TELLING = re.compile('yamata: |ssh: |Host key verification failed|.*: Permission denied|No .* host key is known for ')
CAUSE = re.compile(r'yamata: (rank \d+ \(.*)')
# mpirun's words for a killed guard.
NOTICED = re.compile(r'mpirun noticed that process rank (\d+) with PID \d+ on node (\S+) exited on signal (\d+ \([^)]*\))')
# mpirun's words for a lost daemon; it ends a few seconds later.
DAEMON_LOST = re.compile(r'ORTE has lost communication with a remote daemon|An ORTE daemon has unexpectedly failed')
RANK = re.compile(r'rank (\d+)')


def cause_of(line):
    """What a line of standard error says of the end of a rank, in the program's words; nothing: it says nothing."""
    if found := NOTICED.match(line):
        rank, host, number = found.groups()
        question = '; was its machine out of memory?' if number.startswith('9 ') else ''
        return f'rank {rank} ({host}) was killed by signal {number}{question}'
    found = CAUSE.match(line)
    return found[1] if found else ''


def launcher_words(mpirun_words, ssh_config=None, shared=None, network=()):
    """Parameters of mpirun with which a job ends, and another begins, quickly; those that `mpirun_words` has are not changed. `shared`: the
    folder for memory that ranks share, if all are on this machine; `network`: parameters by which machines reach each other."""
    wanted = {'odls_base_sigkill_timeout': '0', 'plm_rsh_no_tree_spawn': '1'} | dict(network)
    if shared:
        wanted['btl_vader_backing_directory'] = str(shared)
    if 'plm_rsh_agent' not in mpirun_words:
        wanted['plm_rsh_args'] = '-o BatchMode=yes -o ConnectTimeout=2' + (f' -F {ssh_config}' if ssh_config else '')
    own = [word for name, value in wanted.items() if name not in mpirun_words for word in ('--mca', name, value)]
    return own + list(mpirun_words)


def command_of(program, words, ranks=None, hostfile=None, mpirun_words=()):
    """The command that starts the engine. `program`: words; `words`: its flags."""
    engine = [*map(str, program), 'engine', *words]
    if ranks is None and hostfile is None:
        return engine
    if not any(word.partition('=')[0] in ('--timeout', '--serving-timeout') for word in words):
        engine += ['--timeout', str(TIMEOUT_S), '--serving-timeout', str(SERVING_S)]
    launcher = ['mpirun', '--bind-to', 'none', *mpirun_words]
    if hostfile is not None:
        launcher += ['--hostfile', str(hostfile), '--map-by', 'node']
    if ranks is not None:
        launcher += ['-np', str(ranks)]
        if hostfile is None:
            launcher += ['--oversubscribe']
    return [*launcher, *engine]


class Noise:
    """What mpirun writes between two lines of dashes, behind a line that has said why."""

    def __init__(self):
        self.told = self.boxed = False

    def has(self, line):
        dashes = line.startswith('-----')
        self.boxed ^= dashes
        self.told |= bool(TELLING.match(line))
        return self.told and (self.boxed or dashes)


class Engine:
    """One generation. `state`: loading, ready, stopping, lost; `over` is set with the last. `ready`: its message of that name. `blamed`:
    the rank that its loss names. `changed(engine)` is called when the state or the share that is loaded changes; `said(line)` for each
    line of its standard error."""

    def __init__(self, command, changed, said, folder=None):
        self.command, self.changed, self.said, self.folder = command, changed, said, folder
        self.state, self.share, self.ready, self.why = 'loading', 0.0, {}, ''
        self.process, self.listeners, self.last_number = None, {}, 0
        self.joined, self.silent_ticks, self.begin = [], 0, time.monotonic()
        self.code, self.alive, self.cause, self.end_kind = None, {}, '', 'lost'
        self.last_error, self.blamed, self.over, self.output, self.noise = '', None, asyncio.Event(), None, Noise()

    async def run(self):
        """Starts it, and returns its exit code when it has ended."""
        self.output, write = await lines.pipe(self.take_line, protocol.LINE_BYTES)
        try:
            self.process = await asyncio.create_subprocess_exec(
                *self.command, stdin=asyncio.subprocess.PIPE, stdout=write, stderr=asyncio.subprocess.PIPE, start_new_session=True,
                limit=protocol.LINE_BYTES, env=as_root.environment(**({'TMPDIR': str(self.folder)} if self.folder else {})))
        finally:
            os.close(write)
        watch = asyncio.create_task(self.watch_silence())
        errors = asyncio.create_task(self.read_errors())
        try:
            if not await self.output.ended:
                self.lose('a line of the engine is too long')
                self.kill()
            self.code = await self.process.wait()
            await errors
        finally:
            watch.cancel()
            errors.cancel()
            self.output.close()
            killed = self.code is not None and self.code < 0
            self.lose(f'{os.path.basename(self.command[0])} was killed by signal {-self.code}' if killed else 'the engine has ended')
        return self.code

    def take_line(self, data):
        self.silent_ticks = 0
        message = protocol.read(data)
        if message is None:
            self.said(data.decode(errors='replace'))
        else:
            self.take(message)

    async def read_errors(self):
        while data := await self.process.stderr.readline():
            line = data.decode(errors='replace').rstrip('\n')
            if not self.noise.has(line):
                self.last_error = line
                if self.state != 'lost':  # then it is mpirun's noise
                    self.said(line)
            self.cause = self.cause or cause_of(line)
            if DAEMON_LOST.search(line) and self.state != 'loading':
                self.lose('mpirun has lost a machine, and does not say which')
            if KILLED.match(line) and self.state != 'loading':
                self.lose(self.cause)

    async def watch_silence(self):
        """Ends an engine that says nothing. Ticks are counted, not seconds, since this process may have been stopped for a while."""
        while True:
            await asyncio.sleep(TICK_S)
            self.silent_ticks += 1
            limit_s = START_SILENCE_S if self.state == 'loading' else SILENCE_S
            if self.silent_ticks * TICK_S > limit_s:
                self.lose(f'the engine has said nothing for {limit_s} s')
                return await self.end()

    def take(self, message):
        kind = message['is']
        if kind == 'loading':
            self.share = max(self.share, min(float(message.get('share') or 0), 1.0))
            self.changed(self)
        elif kind == 'alive':
            self.alive = message
        elif kind == 'joined':
            self.joined.append(message)
        elif kind == 'ready':
            self.ready, self.share, self.state = message, 1.0, 'ready'
            self.changed(self)
        elif kind == 'warning':
            self.said(f'warning: {message.get("message") or message.get("why") or ""}')
        elif 'id' in message:
            listener = self.listeners.get(message['id'])
            if listener:
                listener(message)
        elif kind == 'lost':
            rank, why = f'rank {message.get("rank")} ({message.get("host", "")})', message.get('why') or 'lost'
            self.blamed = message.get('rank')
            self.lose(why if 'rank' not in message or why.startswith(rank) else f'{rank}: {why}')
        elif kind == 'error':  # of a line that it could not read: of which request is unknown
            self.said(message.get('message') or str(message))
            for number, listener in list(self.listeners.items()):
                with contextlib.suppress(HttpError):
                    self.write(protocol.line(protocol.cancel(number)))
                listener(message)

    def lose(self, why, kind='lost'):
        """Tells all requests that nothing more comes. `kind`: 'ending' if that is wanted."""
        if self.state == 'lost':
            return
        self.state, self.why, self.end_kind = 'lost', self.cause or why, kind
        if self.blamed is None and (named := RANK.match(self.cause)):
            self.blamed = int(named[1])
        self.over.set()
        listeners, self.listeners = list(self.listeners.values()), {}
        self.changed(self)
        for listener in listeners:
            listener({'is': kind, 'why': self.why})

    def launcher_was_killed(self):
        return self.code is not None and self.code < 0 and os.path.basename(self.command[0]) == 'mpirun'

    def write(self, data):
        """Raises HttpError (503)."""
        if self.state == 'loading':
            raise HttpError(503, 'the model is still loading', headers=[('retry-after', '2')])
        if self.state == 'lost' or self.process.stdin.is_closing():
            raise protocol.end_error(self.end_kind, self.why or 'it has ended')
        self.process.stdin.write(data)

    def request(self, data, listener):
        """Sends a message of protocol.unnumbered with a number of its own, which is returned; `listener` is called with each answer until
        `forget`."""
        number = self.last_number + 1
        self.write(protocol.numbered(data, number))
        self.last_number, self.listeners[number] = number, listener
        return number

    def forget(self, number):
        self.listeners.pop(number, None)

    async def ask(self, message, param):
        """The one answer to a message. Raises HttpError; `param`: the client's field that was wrong."""
        answer = asyncio.get_running_loop().create_future()
        number = self.request(protocol.unnumbered(message), lambda reply: answer.done() or answer.set_result(reply))
        try:
            reply = await answer
        finally:
            self.forget(number)
        if reply['is'] in ('lost', 'ending'):
            raise protocol.end_error(reply['is'], reply['why'])
        if reply['is'] in ('refused', 'error'):
            raise HttpError(400, reply.get('message', 'refused'), reply.get('code', 'invalid_value'), param)
        return reply

    def stop(self):
        """Open requests finish; then it ends."""
        if self.state in ('ready', 'stopping'):
            self.write(protocol.line(protocol.STOP))
        else:
            self.close_input()

    def close_input(self):
        """It cancels everything, and ends within two seconds."""
        if self.process and not self.process.stdin.is_closing():
            self.process.stdin.close()

    def kill(self):
        """Kills all processes of its session: mpirun gives each rank a process group."""
        for pid in members(self.process.pid):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)

    async def cut(self):
        """Ends what is lost. An mpirun that is ending the job already may crash at a signal to do so."""
        await self.end(CUT_S, asks=False)

    async def end(self, patience_s=KILL_S, asks=True):
        """Ends it within so many seconds, whatever it does."""
        if self.process is None or self.process.returncode is not None:
            return
        self.close_input()
        with contextlib.suppress(OSError):
            if asks:
                self.process.send_signal(signal.SIGTERM)
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self.process.wait(), patience_s)
        self.kill()
        await self.process.wait()
