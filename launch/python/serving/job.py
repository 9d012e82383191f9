"""The engine that serves, and after a loss the next one, over the machines that are left: a job of several generations."""
import asyncio
import contextlib
import os
import pathlib
import shutil
import tempfile
import time

from . import engine, machines, shares
from .engine import Engine
from .http_request import HttpError

PREFIX = 'yamata-serve-'
SHARED_MEMORY = '/dev/shm' if os.path.isdir('/dev/shm') else tempfile.gettempdir()
TICK_S = 1.0
LEAST_START_S = 10  # a later generation may take so long between two signs of progress of its start, or three times as long as the slowest
START_FACTOR = 3    # start so far; twice as long with each loss without a new token, since the machines may be busy
WAITED = 'for all ranks to start'  # said by one that waits for another
PATIENT_LOSSES = 5  # so many losses without a new token are followed by the next start at once; then pauses grow
LONGEST_PAUSE_S = 30
PATIENCE_S = 60  # so long new requests wait while it recovers


def temporary(where):
    """A folder of this process. Those of processes that were killed are removed."""
    for path in pathlib.Path(where).glob(f'{PREFIX}*'):
        owner = path.name.removeprefix(PREFIX).partition('-')[0]
        if owner.isdigit() and not os.path.exists(f'/proc/{owner}'):
            shutil.rmtree(path, ignore_errors=True)
    return pathlib.Path(tempfile.mkdtemp(prefix=f'{PREFIX}{os.getpid()}-', dir=where))


def names(machines):
    return ', '.join(machine.name for machine in machines)


class Plan:
    """What an engine is started with. `command_for(words, hostfile, shared)` makes the command; `words`: the flags of the engine.
    `names_folder`: the command says where temporary files are."""

    def __init__(self, command_for, words, hosts, names_folder=False):
        self.command_for, self.words, self.hosts, self.names_folder = command_for, words, hosts, names_folder

    def without_split(self):
        words, skip = [], False
        for word in self.words:
            name = word.partition('=')[0]
            if name in ('--layer-split', '--mpi-layer-split'):
                skip = '=' not in word
            elif skip:
                skip = False
            else:
                words.append(word)
        return words


class Job:
    """`state`: loading, ready, recovering, stopping, lost. `changed(job)` is called when it, or the share that is loaded, changes; `said`
    for each line of the engines' standard error and of this job. `ready`: the last message of that name. `progress()`: a number that grows
    with each token of any text. `idle()`: nothing is open."""

    def __init__(self, plan, changed, said):
        self.plan, self.changed, self.said = plan, changed, said
        self.progress, self.idle = lambda: 0, lambda: True
        self.hosts = plan.hosts
        self.folder, self.shared = None, None  # for temporary files and shared memory
        self.state, self.ready, self.engine, self.generation = 'loading', {}, None, 0
        self.why, self.end_kind, self.note, self.since = '', 'lost', '', None
        self.ended = asyncio.Event()  # there is no further generation
        self.losses, self.fruitless, self.tokens, self.last_loss = 0, 0, 0, None
        self.slowest_start, self.began = 0, 0
        self.order, self.split, self.full = None, None, None  # of the next generation; the ranks of one with all machines
        self.returning, self.returned, self.blamed, self.watch, self.asked = False, [], None, None, None
        self.goes_on = False  # the last generation is lost, and there will be another
        self.is_refused = False  # the last generation could not start for a reason that is no loss, such as too little memory
        self.settled = asyncio.Event()  # it does not recover
        self.settled.set()

    ending = property(lambda self: self.ended.is_set())
    share = property(lambda self: self.engine.share if self.engine else 0)
    joined = property(lambda self: self.engine.joined if self.engine else [])
    alive = property(lambda self: self.engine.alive if self.engine else {})
    last_error = property(lambda self: self.engine.last_error if self.engine else '')

    async def run(self):
        """Returns the exit code of the last generation."""
        self.folder, self.shared = temporary(tempfile.gettempdir()), temporary(SHARED_MEMORY)
        if self.hosts:
            self.asked = asyncio.create_task(self.hosts.find_mute())
        try:
            while True:
                self.engine = made = self.make_engine()
                running = asyncio.create_task(made.run())
                limit = asyncio.create_task(self.limit_start(made))
                await asyncio.wait([running, asyncio.create_task(made.over.wait())], return_when=asyncio.FIRST_COMPLETED)
                limit.cancel()
                made.lose('it cannot be started')  # unless it is lost already
                if not self.goes_on or self.ending:
                    return await self.finish(made, running)
                await self.leave(made, running)
                await self.prepare()
                if self.ending:
                    return made.code or 0
        finally:
            for task in self.watch, self.asked:
                if task:
                    task.cancel()
            for folder in self.folder, self.shared:
                shutil.rmtree(folder, ignore_errors=True)

    async def finish(self, made, running):
        """The exit code of the last generation."""
        while self.ending and not running.done():  # it may only be starting
            await made.end()
            await asyncio.wait([running], timeout=TICK_S / 10)
        return await running

    def make_engine(self):
        self.generation, self.goes_on = self.generation + 1, False
        self.began = time.monotonic()
        words, hostfile, folder, shared = self.plan.words, None, *(its / str(self.generation) for its in (self.folder, self.shared))
        for its in folder, shared:
            its.mkdir()
        if self.hosts:
            here = self.hosts.here()
            if len(here) < len(self.hosts.all):
                words = self.plan.without_split() + (['--layer-split', self.split] if self.split else [])
                by_name = {machine.name: machine for machine in here}
                here = [by_name.pop(name) for name in self.order or [] if name in by_name] + list(by_name.values())
            hostfile = folder / 'hosts'
            hostfile.write_text(machines.hostfile(here))
            self.order = [machine.name for machine in here]
        made = Engine(self.plan.command_for(words, hostfile, shared), self.engine_changed, self.said,
                      None if self.plan.names_folder else folder)
        made.last_number = self.engine.last_number if self.engine else 0
        return made

    def engine_changed(self, its):
        if its is not self.engine or self.state == 'lost':
            return
        if its.state == 'ready' and self.state in ('loading', 'recovering'):
            self.serve(its)
        elif its.state == 'lost':
            is_over = self.ending or self.state == 'stopping' and self.idle()
            recovers = its.end_kind == 'lost' and not is_over and (self.ready or self.can_start_without(its))
            self.take_loss(its) if recovers else self.give_up(its.why, its.end_kind)
        self.changed(self)

    def can_start_without(self, its):
        """Whether the first generation may have lost a machine, and others are left."""
        return its.code not in (0, 1, 2) and bool(self.hosts) and len(self.hosts.here()) > 1

    def serve(self, its):
        if self.state == 'recovering':
            self.said(f'serving again after {time.monotonic() - self.since:.1f} s')
        self.ready, self.state, self.note, self.since = its.ready, 'ready', '', None
        self.settled.set()
        self.slowest_start = max(self.slowest_start, time.monotonic() - self.began)
        self.returned, self.blamed = [], None
        if self.hosts and not self.hosts.missing():
            self.full = its.ready.get('ranks')
        if self.hosts and not self.watch:
            self.watch = asyncio.create_task(self.watch_machines())

    def give_up(self, why, kind):
        self.state, self.why, self.end_kind, self.goes_on = 'lost', why, kind, False
        self.settled.set()

    def take_loss(self, its):
        """The engine is lost, or ends because machines are back."""
        self.since, self.goes_on = self.since or time.monotonic(), True
        if self.ready:
            self.state = 'recovering'
            self.settled.clear()
        if self.returning:
            return
        self.losses += 1
        self.fruitless = 0 if self.progress() > self.tokens else self.fruitless + 1
        self.tokens = self.progress()
        self.is_refused = its.code in (1, 2)
        name = '' if self.is_refused else self.machine_of(its)
        here = self.hosts.here() if self.hosts else []
        self.blamed = next((machine for machine in here if machine.name == name and len(here) > 1), None)
        for machine in [self.blamed] if self.blamed else self.returned:
            machine.lose(its.why)
        self.note = f'machine {name} is lost' if name else 'the engine is lost'
        self.last_loss = {'why': its.why, 'machine': name, 'time': int(time.time())}
        if self.ready or self.blamed:  # else those that do not answer are found next
            self.said(f'{self.note} ({its.why}); going on with {names(self.hosts.here()) if self.hosts else "another one"}')

    def machine_of(self, its):
        """The name in the host file of the machine that is to blame; '' if nobody knows."""
        if not self.hosts or its.blamed is None or WAITED in its.why:
            return ''
        if its.blamed < len(self.order):
            return self.order[its.blamed]
        host_of = {it['rank']: it['host'] for it in its.joined}
        same = [rank for rank in range(len(self.order)) if host_of.get(rank, rank) == host_of.get(its.blamed)]
        return self.order[same[0]] if same else ''

    def blames_requests(self):
        """Whether a request may have ended the engine: no machine is to blame, and nobody has killed mpirun."""
        return self.blamed is None and not self.engine.launcher_was_killed()

    def recovers(self):
        """Whether texts that the engine has lost will go on."""
        return self.state in ('recovering', 'ready')

    async def leave(self, made, running):
        """Ends what this machine has of a generation. It may still be dying elsewhere when the next one starts."""
        if self.returning:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(asyncio.shield(running), engine.KILL_S)
        await made.cut()
        await asyncio.wait([running], timeout=1)
        running.cancel()
        for folder in self.folder, self.shared:
            shutil.rmtree(folder / str(self.generation), ignore_errors=True)
        with contextlib.suppress(asyncio.CancelledError, OSError):
            await running

    async def pause(self, seconds):
        """Unless it is to end."""
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self.ended.wait(), seconds)

    async def prepare(self):
        """Chooses the machines and shares of the next generation. Waits if losses follow each other, or if no machine answers."""
        if self.fruitless >= PATIENT_LOSSES:
            await self.pause(min(2 ** (self.fruitless - PATIENT_LOSSES), LONGEST_PAUSE_S))
        if not self.hosts:
            self.returning = False
            return
        if self.returning:
            self.returning = False
        elif self.is_refused:
            await self.add_machines()
        else:
            await self.drop_silent()
        self.divide()

    async def drop_silent(self):
        """If a first start fails though all answer, and no machine is to blame, that is the end."""
        await self.asked
        while not self.ending:
            here = self.hosts.here()
            living = await self.hosts.ask(here) or await self.hosts.ask(self.hosts.missing())
            unsure = not self.ready and not self.blamed  # whether a mute machine lives, too
            living = unsure and [machine for machine in living if machine.answers] or living
            if not living:
                await self.pause(TICK_S)
                continue
            for machine in living:
                if not machine.here:
                    machine.come()
            for machine in here:
                if machine not in living:
                    machine.lose('it does not answer')
                    self.said(f'machine {machine.name} does not answer; going on without it')
            if unsure and living == here:
                self.why = self.engine.why
                self.end()
            return

    async def add_machines(self):
        """All that answer take part. If there are none besides those that were not enough, they try again after a while: old ranks may
        still have held the memory, and what does not fit may be the split of earlier shares."""
        self.full, self.note = None, f'the model does not fit on {names(self.hosts.here())}; waiting for machines'
        for _ in range(min(2 ** self.fruitless, LONGEST_PAUSE_S)):
            back = await self.hosts.ask(self.hosts.missing())
            for machine in back:
                machine.come()
            if back or self.ending:
                return
            await self.pause(TICK_S)

    def divide(self):
        """The order and shares of those that take part, from those of a generation with all machines."""
        self.split, here = None, {machine.name for machine in self.hosts.here()}
        names = [machine.name for machine in self.hosts.all]
        if not self.full or len(self.full) != len(names) or len(here) == len(names):
            self.order = names
            return
        order, self.split = shares.remaining(self.full, [i for i, name in enumerate(names) if name in here])
        self.order = [names[i] for i in order]

    async def limit_start(self, made):
        """Ends the start of a later generation that takes too long and does not get on. How long a first one takes is unknown."""
        if not self.ready:
            return
        state, since = None, self.began
        limit_s = max(LEAST_START_S, START_FACTOR * self.slowest_start) * 2 ** min(self.fruitless, PATIENT_LOSSES)
        while made.state == 'loading':
            await asyncio.sleep(TICK_S)
            now, its = time.monotonic(), (made.share, len(made.joined), made.alive.get('progress'))
            if its != state:
                state, since = its, now
            if now - self.began > limit_s and now - since > limit_s:
                made.lose(f'it has not started within {now - self.began:.0f} s')

    async def watch_machines(self):
        """Takes machines back that have answered for a while, when nothing is open."""
        while True:
            await asyncio.sleep(TICK_S)
            missing = self.hosts.missing()
            await self.hosts.ask(missing)
            due = [machine for machine in missing if machine.is_due()]
            if due and self.state == 'ready' and self.idle():
                self.take_back(due)

    def take_back(self, due):
        for machine in due:
            machine.come()
        self.settled.clear()
        self.returned, self.returning, self.state, self.since = due, True, 'recovering', time.monotonic()
        self.note = f'back again: {names(due)}'
        self.said(self.note)
        self.engine.stop()

    def end(self):
        """No further generation."""
        self.ended.set()

    def lose(self, why, kind='lost'):
        """Ends all requests, and is not to go on."""
        self.end()
        if self.state == 'recovering':
            self.give_up(why, kind)
            self.changed(self)
        if self.engine:
            self.engine.lose(why, kind)

    def describe(self):
        """For /health and the page."""
        about = {'generation': self.generation, 'losses': self.losses}
        if self.hosts:
            about['machines'] = [machine.described() for machine in self.hosts.all]
        if self.last_loss:
            about['last_loss'] = self.last_loss
        return about | ({'note': self.note} if self.note else {})

    def machine_counts(self):
        return {'machines': len(self.hosts.all), 'machines_here': len(self.hosts.here())} if self.hosts else {}

    def waits_too_long(self):
        """Whether clients should be told to come back later."""
        return self.state == 'recovering' and time.monotonic() - self.since > PATIENCE_S

    def write(self, data):
        self.engine.write(data)

    def request(self, data, listener):
        return self.engine.request(data, listener)

    def forget(self, number):
        self.engine.forget(number)

    async def ask(self, message, param):
        """As Engine.ask; after a loss it asks the next engine."""
        while True:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self.settled.wait(), PATIENCE_S)
            try:
                return await self.engine.ask(message, param)
            except HttpError as error:
                if error.code != 'engine_lost' or not self.recovers() or self.waits_too_long():
                    raise
            await asyncio.sleep(TICK_S / 20)  # the engine's end may come next

    def stop(self):
        """It ends when nothing is open any more."""
        self.engine.stop()

    def drain(self):
        """Open requests finish."""
        self.state = self.engine.state = 'stopping'

    def close_input(self):
        self.end()
        self.engine.close_input()
