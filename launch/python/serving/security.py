"""Who may ask: keys, the names by which this server may be called, origins of other web pages."""
import hmac
import ipaddress

from .http_request import HttpError

FREE = {'/health', '/v1/health', '/'}  # no key
ALLOWED_HEADERS = 'authorization, content-type'


def host_of(header):
    """The name or address in a Host header, without the port."""
    if header.startswith('['):
        return header[1:].partition(']')[0]
    return header.rpartition(':')[0] if header.count(':') == 1 else header


def is_address(name):
    try:
        ipaddress.ip_address(name)
        return True
    except ValueError:
        return False


def is_loopback(name):
    return name == 'localhost' or (is_address(name) and ipaddress.ip_address(name).is_loopback)


class Security:
    """`keys`: any of them is needed, if there are some. `names`: host names by which the server is called, besides localhost and addresses.
    `origins`: whose pages may ask; '*': all."""

    def __init__(self, keys=(), names=(), origins=()):
        self.keys, self.origins = [key.encode() for key in keys], set(origins)
        self.names = {name.lower().rstrip('.') for name in names} | {'localhost'}

    def check_host(self, request):
        """A foreign name is that of a page whose name was bent to this machine (DNS rebinding). Raises HttpError (403)."""
        header = request.headers.get('host')
        if header is None and request.scope.get('http_version') == '1.0':
            return
        name = host_of(header or '').lower().rstrip('.')
        if name not in self.names and not is_address(name):
            raise HttpError(403, f"this server is not called '{name[:100]}'; allow it with --allow-host", 'host_not_allowed')

    def check_key(self, request):
        """Raises HttpError (401)."""
        if not self.keys or request.path in FREE:
            return
        kind, _, given = request.headers.get('authorization', '').partition(' ')
        given = given.strip() if kind.lower() == 'bearer' else request.headers.get('x-api-key', '')
        if not any([hmac.compare_digest(given.encode(), key) for key in self.keys]):
            raise HttpError(401, 'the API key is missing or wrong', 'invalid_api_key', headers=[('www-authenticate', 'Bearer')])

    def allow_origin(self, request):
        """Headers for the answer that let a page of another origin read it."""
        origin = request.headers.get('origin')
        if origin and (origin in self.origins or '*' in self.origins):
            return [('access-control-allow-origin', origin), ('vary', 'origin')]
        return []

    def preflight(self, request):
        """Headers for the answer to OPTIONS. Raises HttpError (403) unless the origin is allowed."""
        if not self.allow_origin(request):
            raise HttpError(403, 'other origins are not allowed; see --cors-origin')
        return [('access-control-allow-methods', 'GET, POST, OPTIONS'), ('access-control-max-age', '600'),
                ('access-control-allow-headers', request.headers.get('access-control-request-headers', ALLOWED_HEADERS))]
