"""Answers a request with texts of the engine: as one JSON object, or as a stream of server-sent events."""
import asyncio
import contextlib
import itertools
import operator

from . import protocol
from .http_request import Disconnected, HttpError, encoded

PING_S = 1.0
REFUSAL_S = 0.1      # so long a stream waits for an early refusal, which can then have a status of its own
AT_ONCE = 4          # so many messages that have waited together are events of their own
SLOW_S = 60          # a client that takes nothing for so long is cut
DONE = b'data: [DONE]\n\n'
MARK, FIRST = '\0', operator.itemgetter(0)


def event(value):
    return b'data: ' + encoded(value) + b'\n\n'


def comment(note):
    """An event that says nothing, to clients. `note`: why the answer waits."""
    return f': recovering, {note}\n\n'.encode() if note else b': ping\n\n'


class Answering:
    """The generations of one request. `choices`: a Choice for each. `prompts`: how many different prompts they have, in equal numbers.
    `response`: the id of the answer. Reads their messages until all have ended; at the end of the block, those that are still going on
    are cancelled."""

    def __init__(self, request, queue, messages, choices, response, prompts=1):
        self.request, self.queue, self.choices, self.prompts = request, queue, choices, prompts
        self.record = queue.journal.open(request.key(), request.digest, messages) if queue.journal and request.key() else None
        try:
            self.generations, self.inbox = queue.admit(messages, self.record)
        except HttpError:
            self.close_record()
            raise
        for generation in self.generations:
            generation.response = response
        self.open, self.gone, self.cut, self.note = len(messages), False, set(), ''

    def __enter__(self):
        self.watch = asyncio.get_running_loop().create_task(self.watch_client())
        return self

    def __exit__(self, *_):
        self.watch.cancel()
        self.inbox.close()
        self.inbox.overflow = None  # nothing refers to itself, so that it goes at once
        for generation in self.generations:
            self.queue.cancel(generation)
        self.close_record()
        self.request.facts |= {'prompt_tokens': sum(choice.usage.get('prompt', 0) for choice in self.choices),
                               'completion_tokens': sum(choice.usage.get('completion', 0) for choice in self.choices)}

    def close_record(self):
        if self.record:
            self.record.close()

    async def watch_client(self):
        """Ends the wait of `came` when the client is gone."""
        with contextlib.suppress(asyncio.CancelledError):
            await self.request.until_disconnected()
            self.gone = True
            self.inbox.wake()

    async def came(self, patience=None):
        """Waits for messages; whether some came within `patience` seconds. Raises Disconnected."""
        came = await self.inbox.wait(patience)
        if self.gone:
            raise Disconnected
        return came

    def take(self):
        """(index, deltas) of the next message, which is there. Raises HttpError."""
        index, message = self.inbox.take()
        if message['is'] in protocol.ENDS:
            self.open -= 1
        if message['is'] == 'recovering':
            self.note = message['note']
        choice = self.choices[index]
        deltas = choice.take(message)
        if choice.cut and index not in self.cut:
            self.cut.add(index)
            self.queue.cancel(self.generations[index])
        return index, deltas

    async def all(self):
        while self.open:
            await self.came()
            self.take()

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

    def usage(self):
        """Of all choices."""
        each = len(self.choices) // self.prompts
        prompt = sum(choice.usage.get('prompt', 0) for choice in self.choices[::each])
        cached = sum(choice.usage.get('cached', 0) for choice in self.choices[::each])
        completion = sum(choice.usage.get('completion', 0) for choice in self.choices)
        return {'prompt_tokens': prompt, 'completion_tokens': completion, 'total_tokens': prompt + completion,
                'prompt_tokens_details': {'cached_tokens': cached}}


def joined(deltas):
    """Neighbours of one kind of text as one: what has waited together is one event."""
    out = []
    for delta in deltas:
        if out and len(delta) == 1 and delta.keys() == out[-1].keys() and not delta.keys() & {'tool_calls'}:
            (key, text), = delta.items()
            out[-1] = {key: out[-1][key] + text}
        else:
            out.append(delta)
    return out


class Stream:
    """Writes server-sent events: a comment for each second of silence, and when an engine is lost and the text will go on with the next
    one; an error if it ends with one. `head`: what all events have.
    `top`: alternatives per token; None: no log-probabilities. `usage`: whether an event says it. A subclass has chunk(delta), what an
    event says of it; logprobs(index, entries); first(), the events at the beginning."""

    def __init__(self, answering, head, top, usage, seed):
        self.answering, self.request, self.head = answering, answering.request, head
        self.top, self.usage, self.seed = top, usage, seed
        self.told = [0] * len(answering.choices)  # entries of log-probabilities
        self.patterns = {}
        answering.inbox.overflow = self.cut

    def value(self, index, delta, reason=None, **more):
        choice = {'index': index, **self.chunk(delta), 'finish_reason': reason, 'logprobs': None}
        return self.head | {'choices': [choice | more]}

    def text_event(self, index, key, text):
        """The event of a delta that is a text. All but the text is encoded once, since there is one for nearly each token."""
        pattern = self.patterns.get((index, key))
        if pattern is None:
            pattern = self.patterns[index, key] = event(self.value(index, {key: MARK})).split(encoded(MARK))
        return encoded(text).join(pattern)

    def events(self, index, deltas, last):
        """`last`: no event of a choice follows."""
        choice, told = self.answering.choices[index], self.told[index]
        found = []
        if self.top is not None and len(choice.entries) > told:
            self.told[index] = len(choice.entries)
            first, deltas = (deltas or [{'content': ''}])[0], deltas[1:]
            found.append(event(self.value(index, first, logprobs=self.logprobs(index, choice.entries[told:]))))
        for delta in deltas:
            (key, text), *more = delta.items()
            found.append(event(self.value(index, delta)) if more or not isinstance(text, str) else self.text_event(index, key, text))
        if choice.reason:
            end = {'timings': self.answering.timings(), 'seed': self.seed} if last else {}
            found.append(event(self.value(index, {}, choice.reason) | end))
        return found

    async def write(self, data, more=True):
        """Cuts a client that reads too slowly, and raises Disconnected."""
        try:
            if self.request.is_behind():
                await asyncio.wait_for(self.request.write(data, more), SLOW_S)
            else:
                await self.request.write(data, more)
        except asyncio.TimeoutError:
            self.cut()
            raise Disconnected from None

    def cut(self):
        self.request.facts['error'] = 'the client read too slowly'
        self.request.abort()

    async def answer(self):
        """Raises HttpError if the engine refuses the request at once."""
        early = [self.answering.take()] if await self.answering.came(REFUSAL_S) else []
        await self.request.begin(200, 'text/event-stream', [('cache-control', 'no-cache'), ('x-accel-buffering', 'no')])
        await self.write(b''.join([*map(event, self.first()), *self.encoded(early)]))
        try:
            while self.answering.open:
                await (self.pass_on() if await self.answering.came(PING_S) else self.write(comment(self.answering.queue.engine.note)))
            last = [event(self.head | {'choices': [], 'usage': self.answering.usage()})] if self.usage else []
            await self.write(b''.join(last) + DONE, False)
        except HttpError as error:
            self.request.facts['error'] = str(error)[:200]
            await self.write(event(error.body()) + DONE, False)

    async def pass_on(self):
        """Writes what has come, all at once. Raises HttpError for an error behind it."""
        taken, failure = [], None
        try:
            while self.answering.inbox.messages and not (taken and self.top is not None):  # log-probabilities are those of one message
                taken.append(self.answering.take())
        except HttpError as error:
            failure = error
        if found := self.encoded(taken):
            await self.write(b''.join(found))
        if failure:
            raise failure

    def encoded(self, taken):
        """The events of [(index, deltas)]."""
        found = [comment(self.answering.note)] if self.answering.note else []
        self.answering.note = ''
        texts = [(index, [delta for _, deltas in its for delta in deltas]) for index, its in itertools.groupby(taken, FIRST)]
        for i, (index, deltas) in enumerate(texts):
            found += self.events(index, joined(deltas) if len(taken) > AT_ONCE else deltas, not self.answering.open and i + 1 == len(texts))
        return found
