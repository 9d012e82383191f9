"""The order in which requests go to the engine: as many at a time as it has slots, the others wait, up to a limit."""
import asyncio
import collections
import time

from . import protocol
from .http_request import HttpError
from .inbox import Inbox

REASON_S = 1.0  # between the end of a text and that of the engine


class Generation:
    """A text that the engine generates. `unsent`: its request, encoded. The engine's messages for it go into `inbox` as (index, message);
    the last one is of protocol.ENDS."""

    def __init__(self, unsent, index, inbox):
        self.unsent, self.index, self.inbox = unsent, index, inbox
        self.number, self.over, self.cancelled = None, False, False
        self.begin, self.sent, self.first = time.monotonic(), None, None
        self.tokens, self.prompt_tokens, self.computed = 0, 0, 0
        self.response = None  # the id that the response has


class Queue:
    """`most`: requests that may wait."""

    def __init__(self, engine, most, metrics):
        self.engine, self.most, self.metrics = engine, most, metrics
        self.waiting, self.running, self.stopped = collections.deque(), [], False

    def slots(self):
        return max(1, int(self.engine.ready.get('slots') or 1))

    def admit(self, messages):
        """Queues messages of protocol.submit; returns (generations, their inbox). Raises HttpError: 413 for a message that is too long for
        a line, 429 if too many wait, 503. Whether a prompt fits into the context, the engine says."""
        if self.engine.state != 'ready':
            loading = self.engine.state == 'loading'
            raise HttpError(503, 'the model is still loading' if loading else 'the server is ending', headers=[('retry-after', '2')])
        free = self.slots() - len(self.running)
        if len(self.waiting) + len(messages) > self.most + max(free, 0):
            raise HttpError(429, f'{len(self.waiting)} requests wait already; try later', 'queue_full', headers=[('retry-after', '2')])
        inbox = Inbox()
        generations = [Generation(protocol.unnumbered(message), index, inbox) for index, message in enumerate(messages)]
        self.waiting.extend(generations)
        self.advance()
        return generations, inbox

    def advance(self):
        while self.waiting and len(self.running) < self.slots() and self.engine.state in ('ready', 'stopping'):
            generation = self.waiting.popleft()
            generation.sent = time.monotonic()
            self.running.append(generation)
            generation.number = self.engine.request(generation.unsent, lambda message, it=generation: self.take(it, message))
            generation.unsent = None
        if self.engine.state == 'stopping' and not self.waiting and not self.stopped:
            self.stopped = True
            self.engine.stop()

    def take(self, generation, message):
        kind = message['is']
        if generation.over:
            return
        if kind == 'done' and message.get('reason') == 'cancelled' and not generation.cancelled:
            # The text is not complete, and nobody wanted that: the engine is ending, and its end tells why.
            lost = {'is': 'lost', 'why': 'the engine has cancelled it'}
            asyncio.get_running_loop().call_later(REASON_S, self.take, generation, lost)
            return
        if kind == 'text':
            generation.first = generation.first or time.monotonic()
            tokens = message.get('at', generation.tokens)
            self.metrics.grown(tokens - generation.tokens)
            generation.tokens = tokens
        elif kind == 'prompt':
            generation.prompt_tokens, generation.computed = message.get('tokens', 0), message.get('computed', 0)
        generation.inbox.put(generation.index, message)
        if kind in protocol.ENDS:
            self.finish(generation, message)

    def finish(self, generation, message):
        generation.over = True
        if generation in self.running:
            self.running.remove(generation)
        self.engine.forget(generation.number)
        self.metrics.finished(generation, message)
        self.advance()

    def cancel(self, generation):
        """Ends it; the engine answers with `done`, which nobody needs to read."""
        if generation.over or generation.cancelled:
            return
        generation.cancelled = True
        if generation in self.waiting:
            self.waiting.remove(generation)
            self.take(generation, {'is': 'done', 'reason': 'cancelled', 'usage': {}})
        elif self.engine.state in ('ready', 'stopping'):
            self.engine.write(protocol.line(protocol.cancel(generation.number)))

    def lose(self, kind, why):
        """The engine is gone: those that wait end, too."""
        while self.waiting:
            self.take(self.waiting.popleft(), {'is': kind, 'why': why})

    def drain(self):
        """Takes no more requests; when those that it has are sent, the engine is told to end behind them."""
        if self.engine.state == 'ready':
            self.engine.state = 'stopping'
            self.advance()
        elif self.engine.state == 'loading':
            self.engine.close_input()
