"""A request of a client and what it is answered: JSON bodies, errors in the form of OpenAI's API."""
import asyncio
import hashlib
import json
import math

BODY_BYTES = 32 << 20
PIECE_S = 30  # longest wait for the next piece of a body
KINDS = {400: 'invalid_request_error', 401: 'authentication_error', 403: 'permission_error', 404: 'not_found_error',
         405: 'invalid_request_error', 409: 'invalid_request_error', 422: 'invalid_request_error',
         408: 'timeout_error', 413: 'invalid_request_error', 415: 'invalid_request_error',
         429: 'rate_limit_error', 501: 'not_implemented_error'}


class HttpError(Exception):
    """An answer in the error form. `param`: the field of the request that is wrong."""

    def __init__(self, status, message, code=None, param=None, headers=()):
        super().__init__(message)
        self.status, self.code, self.param, self.headers = status, code, param, list(headers)

    def body(self):
        return {'error': {'message': str(self), 'type': KINDS.get(self.status, 'server_error'), 'param': self.param, 'code': self.code}}


class Disconnected(Exception):
    """The client is gone."""


PLAIN, ESCAPED = (json.JSONEncoder(ensure_ascii=escape, allow_nan=False, separators=(',', ':')).encode for escape in (False, True))


def encoded(value):
    """JSON as bytes; text is not escaped, except where UTF-8 could not say it."""
    try:
        return PLAIN(value).encode()
    except UnicodeEncodeError:
        return ESCAPED(value).encode()


MOST_DIGITS = 300  # of a whole number: any such number is also a float


def refuse_constant(name):
    raise ValueError(f'{name} is no JSON')


def whole_number(text):
    if len(text) > MOST_DIGITS:
        raise ValueError(f'a number has more than {MOST_DIGITS} digits')
    return int(text)


def finite_number(text):
    value = float(text)
    if math.isinf(value):
        raise ValueError('a number is too large')
    return value


def decoded(body):
    """The value of a JSON body. Raises HttpError (400)."""
    try:
        value = json.loads(body.decode(), parse_constant=refuse_constant, parse_int=whole_number, parse_float=finite_number)
        if b'\\u' in body:
            json.dumps(value, ensure_ascii=False).encode()  # half a surrogate pair is no text
        return value
    except (ValueError, RecursionError) as error:
        raise HttpError(400, f'the body is not JSON ({type(error).__name__}: {str(error)[:100]})') from None


class Request:
    """One request over ASGI. `status` is what it was answered, 0: nothing yet."""

    def __init__(self, scope, receive, send):
        self.method, self.path, self.scope = scope['method'], scope['path'], scope
        self.receive, self.send_message = receive, send
        self.headers = {name.decode('latin-1').lower(): value.decode('latin-1') for name, value in scope['headers']}
        self.status, self.extra_headers, self.facts = 0, [], {}
        self.digest = ''  # of the JSON body, once it is read

    def key(self):
        """The Idempotency-Key, if there is one."""
        return self.headers.get('idempotency-key') or None

    async def next_piece(self):
        try:
            message = await asyncio.wait_for(self.receive(), PIECE_S)
        except asyncio.TimeoutError:
            raise HttpError(408, f'no more of the body came for {PIECE_S} s', headers=[('connection', 'close')]) from None
        if message['type'] == 'http.disconnect':
            raise Disconnected
        return message

    async def body(self):
        """Raises HttpError: 413 beyond BODY_BYTES; Disconnected."""
        pieces, size, more = [], 0, True
        while more:
            message = await self.next_piece()
            size += len(message.get('body', b''))
            if size <= BODY_BYTES:
                pieces.append(message.get('body', b''))
            elif size > 4 * BODY_BYTES:
                break  # what is a little too long is read to its end, so that the client sees the answer
            more = message.get('more_body', False)
        if size > BODY_BYTES:
            raise HttpError(413, f'the body is longer than {BODY_BYTES >> 20} MiB', headers=[('connection', 'close')])
        return b''.join(pieces)

    async def json(self):
        """The body, an object. Raises HttpError: 415 if it is not sent as JSON, since any web page can send text/plain; 400."""
        kind = self.headers.get('content-type', '').partition(';')[0].strip().lower()
        if kind != 'application/json':
            raise HttpError(415, f"the content type is '{kind[:50]}', not application/json")
        body = await self.body()
        self.digest = hashlib.sha256(body).hexdigest() if self.key() else ''
        value = decoded(body)
        if not isinstance(value, dict):
            raise HttpError(400, 'the body is no JSON object')
        return value

    async def until_disconnected(self):
        """Returns when the client is gone."""
        while (await self.receive())['type'] != 'http.disconnect':
            pass

    async def begin(self, status, content_type, headers=(), length=None):
        self.status = status
        all_headers = [('content-type', content_type), ('x-content-type-options', 'nosniff'), *self.extra_headers, *headers]
        if length is not None:
            all_headers.append(('content-length', str(length)))
        await self.send_message({'type': 'http.response.start', 'status': status,
                                 'headers': [(name.encode('latin-1'), value.encode('latin-1')) for name, value in all_headers]})

    async def write(self, data, more):
        await self.send_message({'type': 'http.response.body', 'body': data, 'more_body': more})

    async def reply(self, status, data, content_type, headers=()):
        await self.begin(status, content_type, headers, len(data))
        await self.write(data, False)

    async def reply_json(self, value, status=200, headers=()):
        await self.reply(status, encoded(value), 'application/json', headers)

    async def reply_error(self, error):
        await self.reply_json(error.body(), error.status, error.headers)

    def is_behind(self):
        """Whether the client has not read all that was written, so that a write may wait."""
        transport = self.scope.get('yamata.transport')
        return not transport or transport.get_write_buffer_size() > 0

    def abort(self):
        """Cuts the connection at once, with what waits to be sent."""
        transport = self.scope.get('yamata.transport')
        if transport:
            transport.abort()
