"""A client of launch/serve, or of another server with OpenAI's interface."""
import contextlib
import http.client
import json
import ssl
import urllib.parse

from common import files
from common.problem import Problem

CONNECT_S = 10
WANTS_KEY = 'the server wants a key, or does not know this one; name a file with it: --api-key-file'
SILENCE_S = 60  # launch/serve says something every second


def read_key(path):
    """The key in a file: its first line. Raises Problem."""
    with files.reading(path, 'write the key into it', 1):
        with open(path, encoding='utf-8', errors='replace') as file:
            key = file.readline().strip()
    if not key or not key.isprintable() or not key.isascii():
        raise Problem(f'the first line of {path} is no key; write the key into it')
    return key


def message_of(data, status):
    """What the error in a response says."""
    with contextlib.suppress(ValueError, TypeError, KeyError, RecursionError):
        return str(json.loads(data)['error']['message'])
    return f'the server answered with {status}'


class Client:
    """`url`: of the server, such as http://127.0.0.1:8080, also with /v1. Raises Problem if it is no such address."""

    def __init__(self, url, key=None):
        try:
            parts = urllib.parse.urlsplit(url if '://' in url else f'http://{url}')
            self.place, self.secure = (parts.hostname, parts.port), parts.scheme == 'https'
            if parts.scheme not in ('http', 'https') or not parts.hostname:
                raise ValueError
        except ValueError:
            raise Problem(f"'{url}' is no address of a server; write one like http://127.0.0.1:8080") from None
        self.url = f'{parts.scheme}://{parts.netloc}'
        self.path = parts.path.rstrip('/').removesuffix('/v1')
        self.headers = {'Authorization': f'Bearer {key}'} if key else {}

    @contextlib.contextmanager
    def request(self, method, path, body=None):
        """The response, within a block at whose end the connection is closed. Raises Problem (2) if the server cannot be reached, now or
        while the response is read."""
        kind = http.client.HTTPSConnection if self.secure else http.client.HTTPConnection
        connection = kind(*self.place, timeout=CONNECT_S)
        try:
            connection.connect()
            connection.sock.settimeout(SILENCE_S)
            headers = self.headers | ({'Content-Type': 'application/json'} if body else {})
            connection.request(method, self.path + path, json.dumps(body) if body else None, headers)
            with contextlib.closing(connection.getresponse()) as response:
                yield response
        except (OSError, http.client.HTTPException, ssl.SSLError) as error:
            why = getattr(error, 'strerror', None) or str(error) or type(error).__name__
            raise Problem(f'{self.url} cannot be reached ({why}); is the server running there?', 2) from None
        finally:
            connection.close()

    def get(self, path):
        """(status, JSON object; empty: it is none)."""
        with self.request('GET', path) as response:
            data = response.read(1 << 20)
        try:
            value = json.loads(data)
        except (ValueError, RecursionError):
            value = {}
        return response.status, value if isinstance(value, dict) else {}

    def check_key(self):
        """Raises Problem (2) if the server wants another key."""
        if self.get('/v1/models')[0] == 401:
            raise Problem(WANTS_KEY, 2)

    def stream(self, body):
        """The events of an answer, as objects, one after another. Raises Problem (2) if the server refuses or ends it."""
        with self.request('POST', '/v1/chat/completions', body | {'stream': True}) as response:
            if response.status == 401:
                raise Problem(WANTS_KEY, 2)
            if response.status != 200:
                raise Problem(message_of(response.read(1 << 20), response.status), 2)
            while line := response.readline():
                name, _, data = line.decode('utf-8', 'replace').strip().partition(':')
                if name != 'data':
                    continue
                if data.strip() == '[DONE]':
                    return
                event = self.read_event(data)
                if 'error' in event:
                    raise Problem(message_of(data, 200), 2)
                yield event
        raise Problem('the server ended the answer before it was complete', 2)

    def read_event(self, data):
        with contextlib.suppress(ValueError, RecursionError):
            if isinstance(event := json.loads(data), dict):
                return event
        raise Problem(f'{self.url} sent what is no event; is it a server of chats?', 2)
