"""/tokenize and /detokenize, as llama.cpp's server has them."""
from .completions import is_ids
from .fields import Fields, refuse, shown
from .http_request import HttpError

MOST_CHARACTERS, MOST_IDS = 1 << 20, 1 << 18  # the engine, which serves nothing else meanwhile, takes about a second


async def tokenize(server, request):
    fields = Fields(await request.json())
    content = fields.text('content')
    if content is None:
        content = fields.text('prompt')  # as vLLM calls it
    if content is None:
        refuse('content', 'content is missing')
    if len(content) > MOST_CHARACTERS:
        raise HttpError(413, f'content has more than {MOST_CHARACTERS} characters', param='content')
    ids = await server.tokenize(content, fields.flag('parse_special', True), fields.flag('add_special'))
    await request.reply_json({'tokens': ids})


async def detokenize(server, request):
    fields = Fields(await request.json())
    ids = fields.list('tokens')
    if ids is None or (ids and not is_ids(ids)):
        refuse('tokens', f'tokens is {shown(ids)}, not a list of token ids')
    if len(ids) > MOST_IDS:
        raise HttpError(413, f'tokens has more than {MOST_IDS} ids', param='tokens')
    await request.reply_json({'content': await server.detokenize(ids) if ids else ''})
