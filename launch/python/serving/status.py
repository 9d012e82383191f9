"""What the server says of itself: /health, /models, /props, /slots, /metrics."""
import time

from . import styles
from .http_request import HttpError


async def health(server, request):
    """Asks the engine nothing."""
    engine = server.engine
    about = engine.describe()
    if engine.state == 'ready' and server.template:
        return await request.reply_json({'status': 'ok'} | about)
    percent = int(100 * engine.share)
    about |= {'status': engine.state, 'percent': percent, 'joined': len(engine.joined)}
    if engine.state == 'recovering' and not engine.waits_too_long():
        return await request.reply_json(about)
    message = {'loading': f'loading the model: {percent} %', 'recovering': engine.note}.get(engine.state, 'the server is ending')
    await request.reply_json(about | HttpError(503, message).body(), 503, [('retry-after', '2')])


async def models(server, request):
    ready = server.engine.ready
    model = {'id': server.name, 'object': 'model', 'created': server.created, 'owned_by': 'yamata'}
    if ready:
        model |= {'max_model_len': ready.get('context', 0), 'meta': {'n_vocab': ready.get('vocab'), 'n_ctx_train': ready.get('context')}}
    await request.reply_json({'object': 'list', 'data': [model]})


async def props(server, request):
    server.require_ready()
    ready = server.engine.ready
    await request.reply_json({
        'default_generation_settings': {'n_ctx': ready.get('context'), 'params': server.defaults}, 'total_slots': server.queue.slots(),
        'model_alias': server.name, 'model_path': server.model_path, 'chat_template': server.template.source,
        'bos_token': ready.get('bos'), 'eos_token': ready.get('eos'), 'modalities': {'vision': False, 'audio': False},
        'template_style': server.style.name, 'thinks': bool(server.style.think) or server.style is styles.HARMONY,
        'layout': ready.get('layout'), 'ranks': ready.get('ranks', []), 'build_info': server.version})


async def slots(server, request):
    """Without prompts or texts in it."""
    server.require_ready()
    queue, now = server.queue, time.monotonic()
    running = [{'id': i, 'n_ctx': server.engine.ready.get('context'), 'is_processing': True, 'id_task': it.number,
                'response': it.response, 'n_prompt_tokens': it.prompt_tokens, 'n_prompt_computed': it.computed,
                'next_token': [{'n_decoded': it.tokens}], 'seconds': round(now - it.sent, 3)} for i, it in enumerate(queue.running)]
    idle = [{'id': i, 'n_ctx': server.engine.ready.get('context'), 'is_processing': False}
            for i in range(len(running), queue.slots())]
    await request.reply_json(running + idle)


async def metrics(server, request):
    """Of slots and cache, what the engine has said in the last half second."""
    engine, queue, alive = server.engine, server.queue, server.engine.alive
    text = server.metrics.text({'requests_running': len(queue.running), 'requests_waiting': len(queue.waiting) + len(queue.again),
                                'ready': int(engine.state == 'ready'), 'runs_in_flight': alive.get('runs', 0),
                                'slots': queue.slots() if engine.ready else 0, 'slots_busy': alive.get('texts', 0),
                                'cache_cells': engine.ready.get('cache_tokens', 0), 'cache_cells_used': alive.get('cells', 0),
                                'pauses_total': alive.get('pauses', 0), 'losses_total': engine.losses,
                                'engine_generation': engine.generation, **engine.machine_counts()})
    await request.reply(200, text.encode(), 'text/plain; version=0.0.4; charset=utf-8')


async def not_here(server, request):
    raise HttpError(501, f'{request.path} is not offered by this server', 'not_implemented')
