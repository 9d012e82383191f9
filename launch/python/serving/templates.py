"""Chat templates, rendered by template_process."""
import asyncio
import json
import os
import pathlib
import socket
import subprocess
import sys

from .http_request import HttpError
from .template_process import LENGTH

CHATML = ("{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}"
          "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}")
SECONDS, MEMORY_BYTES = 2.0, 512 << 20
ANSWER_BYTES = 64 << 20
MODULES = pathlib.Path(__file__).resolve().parents[1]


class TemplateError(Exception):
    """What is wrong with a template, or with the messages for it."""


async def receive(connection):
    """The text of an answer. Raises TemplateError."""
    loop = asyncio.get_running_loop()
    data = bytearray()
    while len(data) < LENGTH.size or len(data) < LENGTH.size + LENGTH.unpack_from(data)[0]:
        piece = await loop.sock_recv(connection, 1 << 20)
        data += piece
        if not piece:
            raise TemplateError('it takes too much time or memory')
        if len(data) > ANSWER_BYTES:
            raise TemplateError('its text is too long')
    answer = json.loads(bytes(data[LENGTH.size:]))
    if 'error' in answer:
        raise TemplateError(answer['error'])
    return answer['text']


async def exchange(control, message):
    """Sends a socket over `control`, a message over that, and returns (answer, the socket). Raises TemplateError."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    try:
        with theirs:
            socket.send_fds(control, [b'.'], [theirs.fileno()])
        data = json.dumps(message).encode()
        await asyncio.get_running_loop().sock_sendall(ours, LENGTH.pack(len(data)) + data)
        return await receive(ours), ours
    except OSError:
        ours.close()
        raise TemplateError('it takes too much time or memory') from None
    except BaseException:
        ours.close()
        raise


class Renderer:
    """The process that renders templates. `seconds` of processor time and `memory_bytes`: for compiling a template, and for each text."""

    def __init__(self, seconds=SECONDS, memory_bytes=MEMORY_BYTES):
        self.limits = {'seconds': seconds, 'memory_bytes': memory_bytes}
        self.control, theirs = socket.socketpair()
        with theirs:
            self.process = subprocess.Popen([sys.executable, '-B', '-m', 'serving.template_process', str(theirs.fileno())],
                                            pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, start_new_session=True,
                                            env=dict(os.environ, PYTHONPATH=str(MODULES)))

    async def template(self, source):
        """A Template. Raises TemplateError."""
        _, connection = await exchange(self.control, {'template': source, **self.limits})
        return Template(source, connection)

    def close(self):
        self.control.close()
        self.process.wait()


class Template:
    def __init__(self, source, connection):
        self.source, self.connection = source, connection
        connection.setblocking(True)

    async def render(self, context):
        """The text. Raises TemplateError: the template's own error (raise_exception), or a limit that was reached."""
        text, connection = await exchange(self.connection, context)
        connection.close()
        return text

    async def prompt(self, context):
        """The same for the messages of a request. Raises HttpError (400)."""
        try:
            return await self.render(context)
        except TemplateError as error:
            raise HttpError(400, f"the model's chat template does not take these messages: {error}", 'template_error', 'messages') from None

    def close(self):
        self.connection.close()
