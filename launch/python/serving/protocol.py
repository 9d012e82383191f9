"""The engine's protocol (docs/serving.md): what is sent to `yamata engine` and read from it, a JSON object a line."""
import json

from .http_request import HttpError, encoded

LINE_BYTES = 64 << 20  # more than any line of the engine, and the most that it takes


NUMBER_BYTES = 32  # of an id and its name


def line(message):
    """The bytes of a message to the engine that has no answer."""
    return encoded(message) + b'\n'


def unnumbered(message):
    """The bytes of a message to the engine without its id. Raises HttpError (413) for more than a line holds."""
    data = encoded(message)
    if len(data) > LINE_BYTES - NUMBER_BYTES:
        raise HttpError(413, 'the request is too long')
    return data


def going_on(data, ids):
    """The unnumbered message of a request whose answer has these token ids already."""
    return data[:-1] + b',"kept":' + encoded(list(ids)) + b'}' if ids else data


def numbered(data, number):
    """The line of an unnumbered message."""
    return b'{"id":%d,' % number + data[1:] + b'\n'


def submit(prompt, sampling, max_tokens=None, stop=(), logprobs=None, schema=None, cache=True, special=False, trigger=None):
    """A request without its id. `prompt`: a text or token ids. `special`: control tokens come as text. `trigger`: the schema holds for what
    comes behind this text."""
    message = {'do': 'submit', 'prompt': prompt, 'sampling': sampling, 'cache': cache}
    if max_tokens is not None:
        message['max_tokens'] = max_tokens
    if stop:
        message['stop'] = list(stop)
    if logprobs is not None:
        message['logprobs'] = logprobs
    if schema is not None:
        message['schema'] = schema
    if trigger is not None:
        message['schema_after'] = trigger
    if special:
        message['special'] = True
    return message


def tokenize(text, special, bos):
    return {'do': 'tokenize', 'text': text, 'special': special, 'bos': bos}


def detokenize(ids):
    return {'do': 'detokenize', 'ids': ids}


def cancel(number):
    return {'do': 'cancel', 'id': number}


STOP = {'do': 'stop'}
ENDS = 'done', 'refused', 'lost', 'error', 'ending'  # the last message of a request; 'ending' is the front end's


def read(data):
    """The message of a line, or None if it is none."""
    try:
        message = json.loads(data.decode(errors='surrogatepass'))
    except (ValueError, RecursionError):
        return None
    return message if isinstance(message, dict) and isinstance(message.get('is'), str) else None


def end_error(kind, why, remedy='start the server again'):
    """The HttpError for a client whose request was open at the engine's end. `kind`: 'lost' or 'ending'."""
    if kind == 'ending':
        return HttpError(503, 'the server is ending', 'server_ending')
    remedy = f' {remedy.capitalize()}' if why.endswith('?') else f'; {remedy}'
    return HttpError(503, f'the engine was lost: {why}{remedy}', 'engine_lost')


def usage_of(message):
    """{prompt, cached, completion} tokens of a `done`."""
    usage = message.get('usage') or {}
    its = {name: usage.get(f'{name}_tokens', 0) for name in ('prompt', 'cached', 'completion')}
    return its | {'cached': min(its['cached'], its['prompt'])}  # behind a kept text, some of that may have been in the cache, too
