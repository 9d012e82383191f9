"""One choice of an answer: what the engine says of its text becomes content, thinking and tool calls."""
import secrets
import string

from . import protocol
from .answer_parser import PlainParser
from .http_request import HttpError
from .text_filters import Remover, StopFilter

REASONS = {'stop': 'stop', 'length': 'length', 'context': 'length', 'cancelled': 'stop'}


def call_id(short):
    if short:
        return ''.join(secrets.choice(string.ascii_letters + string.digits) for _ in range(9))
    return 'call_' + secrets.token_hex(12)


class Choice:
    """`parallel`: more than one call of a tool is passed on. `params`: how the client calls fields of the engine's protocol. `cut`: the
    engine need not go on. After the last message `reason` is set."""

    def __init__(self, parser=None, drop=(), stops=(), parallel=True, short_ids=False, params=None):
        self.parser, self.remover, self.stops = parser or PlainParser(), Remover(drop), StopFilter(stops)
        self.parallel, self.short_ids, self.params = parallel, short_ids, params or {}
        self.content, self.reasoning, self.calls, self.entries = '', '', [], []
        self.reason, self.usage, self.speculation, self.seconds = None, {}, {}, {}
        self.cut, self.tokens = False, 0

    def take(self, message):
        """Deltas for a message of the engine: [{"content": …}, …]. Raises HttpError for one that says that nothing more comes."""
        if message['is'] == 'text':
            self.entries += message.get('logprobs') or []
            if not self.cut:
                self.tokens = message.get('at', self.tokens)
            return self.deltas(self.parser.feed(self.remover.feed(message.get('text', ''))))
        if message['is'] == 'done':
            return self.finish(message)
        if message['is'] in protocol.ENDS:
            raise error_of(message | {'param': self.params.get(message.get('param'), message.get('param'))})
        return []

    def finish(self, message):
        rest = [*self.parser.feed(self.remover.end()), *self.parser.end()]
        deltas = self.deltas(rest)
        if not self.stops.stopped and (kept := self.stops.end()):
            self.content += kept
            deltas.append({'content': kept})
        self.usage, self.seconds = protocol.usage_of(message), message.get('seconds') or {}
        self.speculation = message.get('speculation') or {}
        if self.cut:
            self.usage['completion'] = self.tokens
        self.reason = 'tool_calls' if self.calls else 'stop' if self.cut else REASONS.get(message.get('reason'), 'stop')
        return deltas

    def deltas(self, parts):
        out = []
        for kind, value in parts:
            if self.cut:
                break
            if kind == 'content':
                value = self.stops.feed(value)
                self.content, self.cut = self.content + value, self.stops.stopped
                out += [{'content': value}] if value else []
            elif kind == 'reasoning':
                self.reasoning += value
                out.append({'reasoning_content': value})
            elif self.calls and not self.parallel:
                self.cut = True
            else:
                out += self.call_deltas(*value)
        return out

    def call_deltas(self, name, arguments):
        index = len(self.calls)
        call = {'id': call_id(self.short_ids), 'type': 'function', 'function': {'name': name, 'arguments': arguments}}
        self.calls.append(call)
        return [{'tool_calls': [call | {'index': index, 'function': {'name': name, 'arguments': ''}}]},
                {'tool_calls': [{'index': index, 'function': {'arguments': arguments}}]}]

    def message(self):
        """The message of a plain answer."""
        message = {'role': 'assistant', 'content': self.content if self.content or not self.calls else None}
        if self.reasoning:
            message['reasoning_content'] = self.reasoning
        if self.calls:
            message['tool_calls'] = self.calls
        return message


def error_of(message):
    """The HttpError for a last message that is not `done`."""
    if message['is'] in ('lost', 'ending'):
        return protocol.end_error(message['is'], message.get('why', ''), *([message['remedy']] if 'remedy' in message else []))
    code = message.get('code')
    if code == 'full':
        return HttpError(429, message.get('message', 'the engine is full'), 'queue_full', headers=[('retry-after', '2')])
    status = 400 if message['is'] == 'refused' else 500
    return HttpError(status, message.get('message') or 'the engine refused the request', code, message.get('param'))
