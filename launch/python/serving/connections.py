"""The HTTP server: uvicorn's, with limits on connections and on the time that headers may take, and with errors in JSON."""
import asyncio
import contextlib
import logging

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from .http_request import HttpError, encoded

CONNECTIONS = 512
HEADERS_S = 20


def raw_error(status, reason, message):
    body = encoded(HttpError(status, message).body())
    return (f'HTTP/1.1 {status} {reason}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n'
            ).encode() + body


class Protocol(H11Protocol):
    """A connection. Its transport is in the scope of requests, so that they can cut it."""

    headers_timer = None

    def connection_made(self, transport):
        super().connection_made(transport)
        app = self.app

        async def with_transport(scope, receive, send):
            await app(scope | {'yamata.transport': transport}, receive, send)
        self.app = with_transport
        self.ws_protocol_class = None
        if len(self.connections) > CONNECTIONS:
            transport.write(raw_error(503, 'Service Unavailable', f'there are {CONNECTIONS} connections already'))
            transport.close()
        self.watch_headers()

    def connection_lost(self, error):
        self.forget_headers()
        super().connection_lost(error)
        if self.timeout_keep_alive_task:  # else it keeps the connection in memory until its time has come
            self.timeout_keep_alive_task.cancel()

    def data_received(self, data):
        if self.transport.is_closing():
            return
        super().data_received(data)
        self.watch_headers()

    def watch_headers(self):
        """Cuts the connection if a request has begun, but its headers do not end."""
        begun = self.cycle is None or self.conn.their_state is h11.IDLE and bool(self.conn.trailing_data[0])
        if not begun:
            self.forget_headers()
        elif self.headers_timer is None:
            self.headers_timer = self.loop.call_later(HEADERS_S, self.transport.abort)

    def forget_headers(self):
        if self.headers_timer:
            self.headers_timer.cancel()
            self.headers_timer = None

    def send_400_response(self, message):
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.write(raw_error(400, 'Bad Request', message))
        self.transport.close()

    def handle_upgrade(self, event):
        self.send_400_response('no protocol but HTTP is spoken here')


class Server(uvicorn.Server):
    """Leaves signals to its owner, and wakes up only when there is something to do. `end()` ends it."""

    def __init__(self, app):
        logging.getLogger('uvicorn.error').setLevel(logging.CRITICAL)  # what clients send wrongly is their affair
        super().__init__(uvicorn.Config(app, http=Protocol, ws='none', lifespan='off', loop='asyncio', log_config=None, access_log=False,
                                        proxy_headers=False, server_header=False, date_header=False, timeout_keep_alive=75))
        self.ending = asyncio.Event()

    def install_signal_handlers(self):
        pass

    @contextlib.contextmanager
    def capture_signals(self):
        yield

    async def main_loop(self):
        await self.on_tick(0)
        await self.ending.wait()

    def end(self, at_once=False):
        """Answers that are being written are completed, unless `at_once`."""
        self.should_exit, self.force_exit = True, self.force_exit or at_once
        self.ending.set()
