"""The order in which requests go to the engine: as many at a time as it has slots, the others wait, up to a limit."""
import asyncio
import collections
import time

from . import protocol
from .http_request import HttpError
from .inbox import Inbox

REASON_S = 1.0  # between the end of a text and that of the engine
MOST_CHARACTERS = 256  # in a token; only tokens of white space are nearly as long


class Generation:
    """A text that the engine generates. Its messages go into `inbox` as (index, message); the last one is of protocol.ENDS."""

    def __init__(self, message, index, inbox):
        self.message, self.index, self.inbox = message, index, inbox
        self.number, self.over, self.cancelled = None, False, False
        self.begin, self.sent, self.first = time.monotonic(), None, None
        self.tokens, self.prompt_tokens, self.computed = 0, 0, 0


class Queue:
    """`most`: requests that may wait."""

    def __init__(self, engine, most, metrics):
        self.engine, self.most, self.metrics = engine, most, metrics
        self.waiting, self.running, self.stopped = collections.deque(), [], False

    def slots(self):
        return max(1, int(self.engine.ready.get('slots') or 1))

    def admit(self, messages):
        """Queues messages of protocol.submit; returns (generations, their inbox). Raises HttpError: 400 for a prompt that
        is much too long, 413 for a message that is too long for a line, 429 if too many wait, 503."""
        if self.engine.state != 'ready':
            loading = self.engine.state == 'loading'
            raise HttpError(503, 'the model is still loading' if loading else 'the server is ending', headers=[('retry-after', '2')])
        self.require_fits(messages)
        free = self.slots() - len(self.running)
        if len(self.waiting) + len(messages) > self.most + max(free, 0):
            raise HttpError(429, f'{len(self.waiting)} requests wait already; try later', 'queue_full', headers=[('retry-after', '2')])
        inbox = Inbox()
        generations = [Generation(message, index, inbox) for index, message in enumerate(messages)]
        self.waiting.extend(generations)
        self.advance()
        return generations, inbox

    def require_fits(self, messages):
        """Refuses a prompt that is so long that it need not be tokenized, which takes the engine seconds (400), and a message that is
        longer than a line (413), before it has a slot. Raises HttpError."""
        context = int(self.engine.ready.get('context') or 0)
        for message in messages:
            if context and len(message['prompt']) > context * MOST_CHARACTERS:
                raise HttpError(400, f"the prompt is too long: this model's maximum context length is {context} tokens",
                                'context_length_exceeded')
            protocol.line(message | {'id': 1 << 53})

    def advance(self):
        while self.waiting and len(self.running) < self.slots() and self.engine.state in ('ready', 'stopping'):
            generation = self.waiting.popleft()
            generation.sent = time.monotonic()
            self.running.append(generation)
            generation.number = self.engine.send(generation.message, lambda message, it=generation: self.take(it, message))
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
            generation.tokens = message.get('at', generation.tokens)
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
            self.engine.send(protocol.cancel(generation.number))

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
