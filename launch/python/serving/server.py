"""What all handlers share: the engine, the queue, the template, the defaults; and the list of paths."""
import functools
import time

from . import chat, completions, protocol, status, styles, tokens
from .http_request import HttpError

ROUTES = {
    ('GET', '/health'): status.health, ('GET', '/models'): status.models, ('GET', '/props'): status.props,
    ('GET', '/slots'): status.slots, ('GET', '/metrics'): status.metrics,
    ('POST', '/chat/completions'): chat.chat, ('POST', '/completions'): completions.completions,
    ('POST', '/tokenize'): tokens.tokenize, ('POST', '/detokenize'): tokens.detokenize, ('POST', '/apply-template'): chat.apply_template,
    ('POST', '/embeddings'): status.not_here, ('POST', '/responses'): status.not_here,
}


class Server:
    """`defaults`: of sampling, for absent values. `template` and `style` are set when the engine is ready."""

    def __init__(self, engine, queue, metrics, name, model_path, defaults, version):
        self.engine, self.queue, self.metrics = engine, queue, metrics
        self.name, self.model_path, self.defaults, self.version = name, model_path, defaults, version
        self.template, self.style, self.created = None, styles.GENERIC, int(time.time())

    def set_template(self, template):
        self.template, self.style = template, styles.style_of(template.source)

    def require_ready(self):
        """Raises HttpError (503)."""
        if self.template is None and self.engine.state in ('loading', 'ready', 'recovering'):
            raise HttpError(503, f'the model is still loading: {int(100 * self.engine.share)} %', headers=[('retry-after', '2')])
        self.queue.require_engine()

    async def tokenize(self, text, special, bos):
        self.require_ready()
        return (await self.engine.ask(protocol.tokenize(text, special, bos), 'content'))['ids']

    async def detokenize(self, ids):
        self.require_ready()
        return (await self.engine.ask(protocol.detokenize(ids), 'tokens'))['text']

    def routes(self, page):
        own = {place: functools.partial(handler, self) for place, handler in ROUTES.items()}
        return own | {('GET', '/'): page.answer}
