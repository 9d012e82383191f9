"""Answers a request with texts of the engine: as one JSON object, or as a stream of server-sent events."""
import asyncio
import contextlib

from . import protocol
from .http_request import Disconnected, HttpError, encoded

PING_S = 1.0
REFUSAL_S = 0.1      # so long a stream waits for an early refusal, which can then have a status of its own
SLOW_S = 60          # a client that takes nothing for so long is cut
BEHIND_BYTES = 1 << 20
DONE = b'data: [DONE]\n\n'


def event(value):
    return b'data: ' + encoded(value) + b'\n\n'


class Answering:
    """The generations of one request. `choices`: a Choice for each. Reads their messages until all have ended; at the end of the block,
    those that are still going on are cancelled."""

    def __init__(self, request, queue, messages, choices):
        self.request, self.queue, self.choices = request, queue, choices
        self.generations, self.inbox = queue.admit(messages)
        self.open, self.gone, self.cut = len(messages), False, set()

    def __enter__(self):
        self.watch = asyncio.get_running_loop().create_task(self.watch_client())
        return self

    def __exit__(self, *_):
        self.watch.cancel()
        for generation in self.generations:
            self.queue.cancel(generation)
        self.request.facts |= {'prompt_tokens': sum(choice.usage.get('prompt', 0) for choice in self.choices),
                               'completion_tokens': sum(choice.usage.get('completion', 0) for choice in self.choices)}

    async def watch_client(self):
        """Lets `next` know when the client is gone."""
        with contextlib.suppress(asyncio.CancelledError):
            await self.request.until_disconnected()
            self.gone = True
            self.inbox.put_nowait((0, None))

    async def next(self, patience=None):
        """(index, deltas) of the next message; None: none came within `patience` seconds. Raises HttpError, Disconnected."""
        try:
            index, message = self.inbox.get_nowait()
        except asyncio.QueueEmpty:
            try:
                index, message = await asyncio.wait_for(self.inbox.get(), patience)
            except asyncio.TimeoutError:
                return None
        if self.gone:
            raise Disconnected
        if message['is'] in protocol.ENDS:
            self.open -= 1
        deltas = self.choices[index].take(message)
        if self.choices[index].cut and index not in self.cut:
            self.cut.add(index)
            self.queue.cancel(self.generations[index])
        return index, deltas

    async def all(self):
        while self.open:
            await self.next()

    def timings(self):
        """As llama.cpp's server has them; of the first choice."""
        generation, choice = self.generations[0], self.choices[0]
        begin, now = generation.sent or generation.begin, asyncio.get_running_loop().time()
        first = generation.first or now
        prompt_ms = 1000 * choice.seconds.get('prompt', first - begin)
        predicted_ms = 1000 * choice.seconds.get('text', now - first)
        prompt_n = max(choice.usage.get('prompt', 0) - choice.usage.get('cached', 0), 0)
        predicted_n = choice.usage.get('completion', 0)
        timings = {'cache_n': choice.usage.get('cached', 0), 'prompt_n': prompt_n, 'prompt_ms': round(prompt_ms, 3),
                   'prompt_per_second': round(1000 * prompt_n / prompt_ms, 3) if prompt_ms else 0,
                   'predicted_n': predicted_n, 'predicted_ms': round(predicted_ms, 3),
                   'predicted_per_second': round(1000 * max(predicted_n - 1, 0) / predicted_ms, 3) if predicted_ms else 0}
        if choice.speculation:
            timings |= {'draft_n': choice.speculation.get('guessed', 0), 'draft_n_accepted': choice.speculation.get('accepted', 0)}
        return timings

    def usage(self, prompts=1):
        """Of all choices. `prompts`: how many different prompts they have, in equal numbers."""
        each = len(self.choices) // prompts
        prompt = sum(choice.usage.get('prompt', 0) for choice in self.choices[::each])
        cached = sum(choice.usage.get('cached', 0) for choice in self.choices[::each])
        completion = sum(choice.usage.get('completion', 0) for choice in self.choices)
        return {'prompt_tokens': prompt, 'completion_tokens': completion, 'total_tokens': prompt + completion,
                'prompt_tokens_details': {'cached_tokens': cached}}


class Stream:
    """Writes server-sent events: a comment for each second of silence, and an error if it ends with one. `events(index, deltas)` gives the
    events of deltas."""

    def __init__(self, answering):
        self.answering, self.request = answering, answering.request

    async def write(self, data, more=True):
        """Cuts a client that reads too slowly, and raises Disconnected."""
        waiting = sum(len(message.get('text', '')) + 100 for _, message in self.answering.inbox._queue if message)
        try:
            if waiting > BEHIND_BYTES:
                raise asyncio.TimeoutError
            await asyncio.wait_for(self.request.write(data, more), SLOW_S)
        except asyncio.TimeoutError:
            self.request.facts['error'] = 'the client read too slowly'
            self.request.abort()
            raise Disconnected from None

    async def run(self, first, events, last):
        """`first`: events at the beginning; `last()`: those before [DONE]. Raises HttpError if the engine refuses the request at once."""
        early = await self.answering.next(REFUSAL_S)
        await self.request.begin(200, 'text/event-stream', [('cache-control', 'no-cache'), ('x-accel-buffering', 'no')])
        await self.write(b''.join(map(event, first)))
        try:
            await self.pass_on(early, events)
            await self.write(b''.join(map(event, last())) + DONE, False)
        except HttpError as error:
            self.request.facts['error'] = str(error)[:200]
            await self.write(event(error.body()) + DONE, False)

    async def pass_on(self, early, events):
        if early:
            await self.write_events(events(*early))
        while self.answering.open:
            came = await self.answering.next(PING_S)
            if came is None:
                await self.write(b': ping\n\n')
            else:
                await self.write_events(events(*came))

    async def write_events(self, values):
        if values:
            await self.write(b''.join(map(event, values)))
