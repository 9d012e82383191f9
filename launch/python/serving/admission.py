"""The order in which requests go to the engine: as many at a time as it has slots, the others wait, up to a limit. Those of an engine that
is lost go on with the next one, first of all."""
import array
import asyncio
import collections
import contextlib
import time

from . import protocol
from .http_request import HttpError
from .inbox import Inbox

REASON_S = 1.0  # between the end of a text and that of the engine


class Generation:
    """A text that the engine generates. `asked`: its request, encoded; `ids`: the tokens of the answer so far. The engine's messages for it
    go into `inbox` as (index, message); the last one is of protocol.ENDS."""

    def __init__(self, asked, index, inbox):
        self.asked, self.index, self.inbox, self.ids = asked, index, inbox, array.array('i')
        self.number, self.over, self.cancelled = None, False, False
        self.stuck, self.deaths = None, 0  # its tokens when engines were lost with it for no known reason, and how often they were as many
        self.begin, self.sent, self.first, self.end = time.monotonic(), None, None, None
        self.tokens, self.prompt_tokens, self.computed = 0, 0, 0
        self.response, self.record = None, None  # the id that the response has; see journal.py

    def go_on(self, record):
        """Behind what an earlier server had of it."""
        self.ids.extend(record.kept(self.index))
        self.tokens, self.over, self.record = len(self.ids), record.has_ended(self.index), record
        for index, message in record.came:
            if index == self.index:
                self.inbox.put(index, message)

    def is_suspect(self):
        """Whether it may be what has ended the engine: nothing was to blame, and it has not got on since."""
        return self.deaths > 0 and len(self.ids) == self.stuck

    def died(self):
        """An engine was lost with it, for no known reason."""
        self.deaths = self.deaths + 1 if self.stuck == len(self.ids) else 1
        self.stuck = len(self.ids)


class Queue:
    """`most`: requests that may wait."""

    def __init__(self, engine, most, metrics):
        self.engine, self.most, self.metrics, self.journal = engine, most, metrics, None
        self.waiting, self.again, self.running, self.stopped = collections.deque(), collections.deque(), [], False
        self.closed = False  # nothing more is admitted

    def slots(self):
        return max(1, int(self.engine.ready.get('slots') or 1))

    def admit(self, messages, record=None):
        """Queues messages of protocol.submit; returns (generations, their inbox). Raises HttpError: 413 for a message that is too long for
        a line, 429 if too many wait, 503. Whether a prompt fits into the context, the engine says. `record`: what is known of the request
        from an earlier server, in place of `messages`, and what its texts are added to."""
        self.require_engine()
        free = self.slots() - len(self.running) - len(self.again)
        if len(self.waiting) + len(messages) > self.most + max(free, 0):
            raise HttpError(429, f'{len(self.waiting)} requests wait already; try later', 'queue_full', headers=[('retry-after', '2')])
        inbox = Inbox()
        asked = record.asked if record else messages
        generations = [Generation(protocol.unnumbered(message), index, inbox) for index, message in enumerate(asked)]
        for generation in generations if record else ():
            generation.go_on(record)
        self.waiting.extend(it for it in generations if not it.over)
        self.advance()
        return generations, inbox

    def require_engine(self):
        """Raises HttpError (503) if nothing is admitted now."""
        if self.engine.state in ('ready', 'recovering') and not self.engine.waits_too_long() and not self.closed:
            return
        why = {'loading': 'the model is still loading', 'recovering': self.engine.note}.get(self.engine.state, 'the server is ending')
        raise HttpError(503, why, headers=[('retry-after', '2')])

    def idle(self):
        return not (self.waiting or self.again or self.running)

    def advance(self):
        while (queue := self.next_queue()) and len(self.running) < self.slots() and self.engine.state in ('ready', 'stopping'):
            generation = queue.popleft()
            generation.sent = generation.sent or time.monotonic()
            self.running.append(generation)
            data = protocol.going_on(generation.asked, generation.ids)
            try:
                generation.number = self.engine.request(data, lambda message, it=generation: self.take(it, message))
            except HttpError:  # the engine is lost, and its end comes next
                self.running.remove(generation)
                if not self.engine.recovers():
                    raise
                self.again.appendleft(generation)
                return
        if self.engine.state == 'stopping' and not self.waiting and not self.again and not self.stopped:
            self.stopped = True
            self.engine.stop()

    def next_queue(self):
        """From which the next one comes; None: there is none. Suspects go on one at a time, so that only the one to blame fails."""
        if self.again:
            is_held = self.again[0].is_suspect() and any(it.is_suspect() for it in self.running)
            return None if is_held else self.again
        return self.waiting or None

    def put_back(self, generation, why):
        """The engine is lost, and the next one goes on with this text."""
        self.running.remove(generation)
        self.engine.forget(generation.number)
        if self.engine.blames_requests():
            generation.died()
        self.again.append(generation)
        if generation.cancelled:
            self.leave(self.again, generation)
        elif generation.deaths > 1:
            self.again.remove(generation)
            self.take(generation, {'is': 'lost', 'why': f'{why}; twice with this request', 'remedy': 'send another one'})
        else:
            generation.inbox.put(generation.index, {'is': 'recovering', 'note': self.engine.note})
        self.advance()

    def leave(self, queue, generation):
        queue.remove(generation)
        self.take(generation, {'is': 'done', 'reason': 'cancelled', 'usage': {}})

    def take(self, generation, message):
        kind = message['is']
        if generation.over:
            return
        if kind == 'lost' and generation in self.running and self.engine.recovers():
            return self.put_back(generation, message['why'])
        if kind == 'done' and message.get('reason') == 'cancelled' and not generation.cancelled:
            # The text is not complete, and nobody wanted that: the engine is ending, and its end tells why.
            asyncio.get_running_loop().call_later(REASON_S, self.take_unless_sent_again, generation, generation.number)
            return
        if kind == 'text':
            generation.first = generation.first or time.monotonic()
            suspect = generation.is_suspect()
            generation.ids.extend(message.get('ids', ()))
            tokens = message.get('at', generation.tokens)
            self.metrics.grown(tokens - generation.tokens)
            generation.tokens = tokens
            if suspect and self.again:
                self.advance()
        elif kind == 'prompt':
            generation.prompt_tokens, generation.computed = message.get('tokens', 0), message.get('computed', 0)
        generation.inbox.put(generation.index, message)
        if generation.record and (kind == 'text' or kind == 'done' and not generation.cancelled):
            generation.record.add(generation.index, message)
        if kind in protocol.ENDS:
            self.finish(generation, message)

    def take_unless_sent_again(self, generation, number):
        if generation.number == number:
            self.take(generation, {'is': 'lost', 'why': 'the engine has cancelled it'})

    def finish(self, generation, message):
        generation.over, generation.end = True, time.monotonic()
        generation.asked = None
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
            self.leave(self.waiting, generation)
        elif generation in self.again:
            self.leave(self.again, generation)
        elif self.engine.state in ('ready', 'stopping'):
            with contextlib.suppress(HttpError):  # the engine is lost, and its end comes next
                self.engine.write(protocol.line(protocol.cancel(generation.number)))

    def lose(self, kind, why):
        """The engine is gone: those that wait end, too."""
        while self.again or self.waiting:
            self.take((self.again or self.waiting).popleft(), {'is': kind, 'why': why})

    def drain(self):
        """Takes no more requests; when those that it has are sent, the engine is told to end behind them. After a loss, again."""
        self.closed, self.stopped = True, False
        if self.engine.state == 'ready':
            self.engine.drain()
            self.advance()
        elif self.engine.state == 'loading':
            self.engine.close_input()
