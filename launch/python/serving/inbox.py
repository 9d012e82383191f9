"""The messages of the engine for one request, in their order."""
import asyncio
import collections

MOST_BYTES = 1 << 20


def bytes_of(message):
    """Roughly, of a client's event."""
    entries = message.get('logprobs') or ()
    return len(message.get('text', '')) + 100 * (1 + sum(1 + len(entry.get('top', ())) for entry in entries))


class Inbox:
    """`messages`: (index of the text, message). One task may wait for them. `overflow`, if set, is called when more than
    MOST_BYTES wait."""

    def __init__(self):
        self.messages, self.size, self.overflow = collections.deque(), 0, None
        self.waiter, self.timer, self.due = None, None, None

    def put(self, index, message):
        self.messages.append((index, message))
        self.size += bytes_of(message)
        if self.size > MOST_BYTES and self.overflow:
            self.overflow()
        self.wake()

    def take(self):
        """The next one, which is there."""
        index, message = self.messages.popleft()
        self.size -= bytes_of(message)
        return index, message

    def wake(self, came=True):
        """Ends the wait."""
        if self.waiter and not self.waiter.done():
            self.waiter.set_result(came)

    async def wait(self, patience=None):
        """Returns when a message is there or `wake` is called; False: `patience` seconds have passed. One timer lasts for many waits, since
        a timer for each token would take longer than the rest."""
        if self.messages:
            return True
        loop = asyncio.get_running_loop()
        self.waiter = loop.create_future()
        self.due = loop.time() + patience if patience else None
        if self.due and (not self.timer or self.timer.when() > self.due):
            self.close()
            self.timer = loop.call_at(self.due, self.tick)
        try:
            return await self.waiter
        finally:
            self.waiter = None

    def tick(self):
        self.timer = None
        if not self.waiter or not self.due:
            return
        loop = asyncio.get_running_loop()
        if loop.time() < self.due:
            self.timer = loop.call_at(self.due, self.tick)
        else:
            self.wake(False)

    def close(self):
        if self.timer:
            self.timer.cancel()
            self.timer = None
