"""/tokenize and /detokenize, as llama.cpp's server has them."""
from .completions import is_ids
from .fields import Fields, refuse, shown


async def tokenize(server, request):
    fields = Fields(await request.json())
    content = fields.text('content')
    if content is None:
        content = fields.text('prompt')  # as vLLM calls it
    if content is None:
        refuse('content', 'content is missing')
    ids = await server.tokenize(content, fields.flag('parse_special', True), fields.flag('add_special'))
    await request.reply_json({'tokens': ids})


async def detokenize(server, request):
    fields = Fields(await request.json())
    ids = fields.list('tokens')
    if ids is None or (ids and not is_ids(ids)):
        refuse('tokens', f'tokens is {shown(ids)}, not a list of token ids')
    await request.reply_json({'content': await server.detokenize(ids) if ids else ''})
