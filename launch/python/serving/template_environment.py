"""The environment in which chat templates of model files are rendered: that of the Transformers library, for which they are written."""
import datetime
import json

import jinja2
from jinja2 import ext, nodes, sandbox


class Generation(ext.Extension):
    """{% generation %}: marks what the model has written, for training; here it changes nothing."""

    tags = {'generation'}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(('name:endgeneration',), drop_needle=True)
        return nodes.CallBlock(self.call_method('render'), [], [], body).set_lineno(line)

    def render(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def to_json(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def strftime_now(form):
    return datetime.datetime.now().strftime(form)


class Arguments(dict):
    """The arguments of a call: an object, and its JSON for templates that print it or add it to a text."""

    def __str__(self):
        return to_json(self)

    def __add__(self, text):
        return str(self) + text

    def __radd__(self, text):
        return text + str(self)


def as_seen(context):
    """The context of a rendering, as templates see it."""
    messages = context.get('messages')
    for message in messages if isinstance(messages, list) else ():
        for call in message.get('tool_calls') or ():
            call['function']['arguments'] = Arguments(call['function']['arguments'])
    return context


def environment():
    made = sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[ext.loopcontrols, Generation])
    made.globals |= {'raise_exception': raise_exception, 'strftime_now': strftime_now}
    made.filters['tojson'] = to_json
    return made
