"""The ASGI application: finds the handler of a path, after the checks of security; what goes wrong is answered in the error form."""
import time
import traceback

from .http_request import Disconnected, HttpError, Request


class App:
    """`routes`: {(method, path): async function of a request}; each path counts also behind /v1."""

    def __init__(self, routes, security, metrics, log, say):
        self.routes, self.security, self.metrics, self.log, self.say = routes, security, metrics, log, say
        self.paths = {path for _, path in routes}

    async def __call__(self, scope, receive, send):
        if scope['type'] != 'http':
            return
        request, begin = Request(scope, receive, send), time.monotonic()
        try:
            await self.answer(request)
        except Disconnected:
            request.facts['disconnected'] = True
        self.metrics.answered(request.status)
        self.log.write(request, time.monotonic() - begin)

    async def answer(self, request):
        try:
            request.extra_headers = self.security.allow_origin(request)
            self.security.check_host(request)
            if request.method == 'OPTIONS':
                return await request.reply(204, b'', 'text/plain', self.security.preflight(request))
            self.security.check_key(request)
            await self.handler(request)(request)
        except HttpError as error:
            await self.answer_error(request, error)
        except Disconnected:
            raise
        except Exception as error:  # a mistake of this program: one request fails
            self.say('\n'.join(traceback.format_exception(type(error), error, error.__traceback__)).rstrip())
            await self.answer_error(request, HttpError(500, 'the server made a mistake; its terminal says more'))

    async def answer_error(self, request, error):
        request.facts['error'] = str(error)[:200]
        if request.status:
            return request.abort()  # in the middle of an answer
        await request.reply_error(error)

    def handler(self, request):
        path = request.path.removeprefix('/v1') if request.path.startswith('/v1/') else request.path
        method = 'GET' if request.method == 'HEAD' else request.method
        found = self.routes.get((method, path))
        if found:
            return found
        if path in self.paths:
            allowed = ', '.join(sorted(method for method, its in self.routes if its == path))
            raise HttpError(405, f'{request.method[:20]} does not fit {path}', headers=[('allow', allowed)])
        raise HttpError(404, f'there is no {request.path[:100]}')
