"""Lines that come from a pipe, without a task that has to wake up for each."""
import asyncio
import os


class Lines(asyncio.Protocol):
    """Calls take(line) for each line as it comes, without its end. `ended` is done when the input ends; its result is False after a line of
    more than `most` bytes, behind which nothing is taken; an error of `take` is its error."""

    def __init__(self, take, most):
        self.take, self.most, self.pieces, self.size = take, most, [], 0
        self.ended, self.transport = asyncio.get_running_loop().create_future(), None

    def connection_made(self, transport):
        self.transport = transport

    def close(self):
        """Nothing more is taken, though somebody may still hold the other end."""
        self.transport.close()

    def data_received(self, data):
        *lines, rest = data.split(b'\n')
        for line in lines:
            self.line(line)
        if rest and not self.ended.done():
            self.pieces.append(rest)
            self.size += len(rest)
            if self.size > self.most:
                self.end(False)

    def line(self, end):
        line = b''.join([*self.pieces, end]) if self.pieces else end
        self.pieces, self.size = [], 0
        try:
            if not self.ended.done():
                self.take(line)
        except Exception as error:  # a mistake of this program: for the one who waits
            self.ended.set_exception(error)

    def connection_lost(self, error):
        if self.pieces:
            self.line(b'')
        self.end(True)

    def end(self, well):
        self.pieces = []
        if not self.ended.done():
            self.ended.set_result(well)


async def pipe(take, most):
    """(Lines, the descriptor to write to, which the caller closes)."""
    read, write = os.pipe()
    _, lines = await asyncio.get_running_loop().connect_read_pipe(lambda: Lines(take, most), os.fdopen(read, 'rb', 0))
    return lines, write
