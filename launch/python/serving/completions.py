"""/v1/completions."""
import secrets
import time

from . import logprobs, messages, protocol, sampling
from .answering import Answering, Stream
from .choice import Choice
from .fields import Fields, refuse, shown

MOST_PROMPTS = 64


def is_ids(value):
    return bool(value) and all(isinstance(token, int) and not isinstance(token, bool) and 0 <= token < 2**31 for token in value)


def prompts_of(fields):
    """[a text or a list of token ids]."""
    value = fields.body.get('prompt')
    if isinstance(value, str):
        return [value]
    if isinstance(value, list) and is_ids(value):
        return [value]
    if not isinstance(value, list) or not value:
        refuse('prompt', f'prompt is {shown(value)}, not a text, token ids, or a list of these')
    if len(value) > MOST_PROMPTS:
        refuse('prompt', f'prompt has {len(value)} texts, more than {MOST_PROMPTS}')
    for i, prompt in enumerate(value):
        if not isinstance(prompt, str) and not (isinstance(prompt, list) and is_ids(prompt)):
            refuse('prompt', f'prompt[{i}] is {shown(prompt)}, neither a text nor token ids')
    return value


async def with_suffix(server, prompts, suffix):
    """Prompts that ask for the middle between themselves and a suffix, as token ids."""
    marks = server.engine.ready.get('fim') or {}
    if not {'prefix', 'suffix', 'middle'} <= marks.keys():
        refuse('suffix', 'the vocabulary of this model has no tokens for filling in the middle')
    filled = []
    for prompt in prompts:
        prefix = prompt if isinstance(prompt, list) else await server.tokenize(prompt, False, False)
        behind = await server.tokenize(suffix, False, False)
        filled.append([marks['prefix'], *prefix, marks['suffix'], *behind, marks['middle']])
    return filled


async def echoes(server, prompts, wanted):
    if not wanted:
        return [''] * len(prompts)
    return [prompt if isinstance(prompt, str) else await server.detokenize(prompt) for prompt in prompts]


async def completions(server, request):
    fields = Fields(await request.json())
    wanted, stops = sampling.sampling(fields, server.defaults, request.key()), sampling.stops(fields)
    count, most, top = sampling.choices(fields), sampling.max_tokens(fields), fields.whole('logprobs', 0, sampling.MOST_LOGPROBS)
    echo, stream, usage = fields.flag('echo'), fields.flag('stream'), sampling.include_usage(fields)
    schema, cache, suffix = messages.response_schema(fields), fields.flag('cache_prompt', True), fields.text('suffix')
    prompts = prompts_of(fields)
    if echo and top is not None:
        refuse('echo', 'echo cannot be combined with logprobs: the prompt has none')
    server.require_ready()
    heads = await echoes(server, prompts, echo)
    if suffix:
        prompts = await with_suffix(server, prompts, suffix)
    asked = [protocol.submit(prompt, wanted | {'seed': (wanted['seed'] + i) % sampling.SEEDS}, most, stops, top, schema, cache)
             for prompt in prompts for i in range(count)]
    choices = [Choice(params={'schema': 'response_format'}) for _ in asked]
    head = {'id': 'cmpl-' + secrets.token_hex(12), 'object': 'text_completion', 'created': int(time.time()), 'model': server.name}
    heads = [text for text in heads for _ in range(count)]
    with Answering(request, server.queue, asked, choices, head['id'], len(prompts)) as answering:
        if stream:
            await TextStream(heads, answering, head, top, usage, wanted['seed']).answer()
        else:
            await answering.all()
            parts = [{'index': index, 'text': heads[index] + choice.content, 'finish_reason': choice.reason,
                      'logprobs': None if top is None else logprobs.completion(choice.entries, top, 0)}
                     for index, choice in enumerate(choices)]
            await request.reply_json(head | {'choices': parts, 'usage': answering.usage(), 'timings': answering.timings(),
                                             'seed': wanted['seed']})


class TextStream(Stream):
    """`heads`: what comes before each text."""

    def __init__(self, heads, *others):
        super().__init__(*others)
        self.heads, self.characters = heads, [0] * len(heads)

    def chunk(self, delta):
        return {'text': delta.get('content', '')}

    def logprobs(self, index, entries):
        offset = self.characters[index]
        self.characters[index] += sum(len(logprobs.text_of(entry)) for entry in entries)
        return logprobs.completion(entries, self.top, offset)

    def first(self):
        return [self.value(index, {'content': text}) for index, text in enumerate(self.heads) if text]
