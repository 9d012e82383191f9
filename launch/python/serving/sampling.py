"""What a request says about sampling, stops and length, as the engine's protocol has it."""
import hashlib
import secrets

from .fields import refuse, shown

MOST_CHOICES = 16
MOST_LOGPROBS = 20
MOST_TOKENS = 2**31 - 1
SEEDS = 2**64


def logit_bias(fields):
    """{token id as text: bias}."""
    biases = {}
    for token, bias in fields.object('logit_bias', {}).items():
        if not (token.isascii() and token.isdigit() and len(token) < 10):
            refuse('logit_bias', f'logit_bias: {shown(token)} is no token id')
        if isinstance(bias, bool) or not isinstance(bias, (int, float)) or not -100 <= bias <= 100:
            refuse('logit_bias', f'logit_bias: {shown(bias)} is not between -100 and 100')
        biases[token] = bias
    return biases


def drawn_seed(key):
    """With an Idempotency-Key, it is the same each time."""
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:4], 'big') >> 1 if key else secrets.randbelow(2**31)


def sampling(fields, defaults, key=None):
    """`defaults`: of the server, for absent values. The seed is drawn if it is absent. `key`: of the request."""
    top_k = fields.whole('top_k', -1, MOST_TOKENS, defaults['top_k'])
    seed = fields.whole('seed', -SEEDS // 2, SEEDS - 1)
    wanted = {
        'temperature': fields.number('temperature', 0, 100, defaults['temperature']),
        'top_k': max(top_k, 0),
        'top_p': fields.number('top_p', 0, 1, defaults['top_p']),
        'min_p': fields.number('min_p', 0, 1, defaults['min_p']),
        'presence_penalty': fields.number('presence_penalty', -2, 2, 0),
        'frequency_penalty': fields.number('frequency_penalty', -2, 2, 0),
        'repeat_penalty': fields.number('repeat_penalty', 0.01, 100, fields.number('repetition_penalty', 0.01, 100, 1)),
        'seed': drawn_seed(key) if seed is None else seed % SEEDS,
    }
    if (last := fields.whole('repeat_last_n', -1, MOST_TOKENS)) is not None:
        wanted['repeat_last_n'] = last
    if biases := logit_bias(fields):
        wanted['logit_bias'] = biases
    if fields.flag('ignore_eos'):
        wanted['ignore_eos'] = True
    return wanted


def max_tokens(fields):
    """None: to the end of the context."""
    most = fields.whole('max_tokens', 1, MOST_TOKENS)
    return fields.whole('max_completion_tokens', 1, MOST_TOKENS, most)


def stops(fields):
    value = fields.body.get('stop')
    value = [] if value is None else [value] if isinstance(value, str) else value
    if not isinstance(value, list) or any(not isinstance(stop, str) or not stop for stop in value):
        refuse('stop', f'stop is {shown(fields.body["stop"])}, not a text or a list of texts')
    if len(value) > 4:
        refuse('stop', f'stop has {len(value)} texts, more than 4')
    return value


def choices(fields):
    return fields.whole('n', 1, MOST_CHOICES, 1)


def chat_logprobs(fields):
    """How many alternatives are wanted for each token; None: no log-probabilities."""
    top = fields.whole('top_logprobs', 0, MOST_LOGPROBS)
    if not fields.flag('logprobs'):
        if top:
            refuse('top_logprobs', 'top_logprobs needs logprobs: true')
        return None
    return top or 0


def include_usage(fields):
    return bool(fields.object('stream_options', {}).get('include_usage'))
