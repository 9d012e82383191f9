"""/v1/chat/completions, and /apply-template."""
import dataclasses
import secrets
import time

from . import logprobs, messages, protocol, sampling, styles
from .answer_parser import ForcedParser, HarmonyParser, Parser, PlainParser
from .answering import Answering, Stream
from .choice import Choice
from .fields import Fields, refuse
from .http_request import HttpError

RESERVED = {'messages', 'tools', 'bos_token', 'eos_token'}


@dataclasses.dataclass
class Prompt:
    """A chat as the model sees it. `forced`: names of tools of which one must be called."""

    text: str
    tools: list
    forced: list
    opened: bool  # it ends within thinking


async def rendered(template, context):
    """Raises HttpError (400)."""
    try:
        return await template.prompt(context)
    except HttpError:
        merged = styles.with_system_in_user(context['messages'])
        if not merged:
            raise
    return await template.prompt(context | {'messages': merged})


async def prompt_of(server, fields):
    """Raises HttpError (400)."""
    style = server.style
    chat = messages.messages_of(fields, style.short_ids)
    tools, forced = messages.tools_of(fields)
    shown, shown_tools = styles.shown_to(style, chat, tools)
    extra = fields.object('chat_template_kwargs', {})
    if RESERVED & extra.keys():
        refuse('chat_template_kwargs', f'chat_template_kwargs: {", ".join(sorted(RESERVED & extra.keys()))} cannot be given there')
    if effort := fields.text('reasoning_effort'):
        extra = {'reasoning_effort': effort} | ({'enable_thinking': False} if effort == 'none' else {}) | extra
    context = {'add_generation_prompt': fields.flag('add_generation_prompt', True), **extra, 'messages': shown,
               'bos_token': server.engine.ready.get('bos') or '', 'eos_token': server.engine.ready.get('eos') or ''}
    if shown_tools:
        context['tools'] = shown_tools
    text = await rendered(server.template, context)
    opened = styles.opens_thinking(style, text)
    if forced:
        text = text + (style.think[1] + '\n\n' if opened else '') + style.forced
    return Prompt(text, tools, forced, opened and not forced)


def schema_of(fields, prompt, style):
    """(the schema that the text must obey, the text behind which it begins); None: none."""
    wanted = messages.response_schema(fields)
    if not prompt.forced:
        return wanted, (style.think[1] if wanted and prompt.opened else None)
    calls = []
    for i, name in enumerate(prompt.forced):
        place = '#' + (f'/anyOf/{i}' if len(prompt.forced) > 1 else '') + f'/properties/{style.arguments}'
        arguments = messages.moved(messages.parameters_of(prompt.tools, name), place)
        calls.append({'type': 'object', 'properties': {'name': {'const': name}, style.arguments: arguments},
                      'required': ['name', style.arguments], 'additionalProperties': False})
    return (calls[0] if len(calls) == 1 else {'anyOf': calls}), None


def parser_of(style, prompt):
    """A function that makes a parser for each choice."""
    names = {tool['function']['name'] for tool in prompt.tools}
    if prompt.forced:
        return ForcedParser
    if style is styles.HARMONY:
        return lambda: HarmonyParser(names)
    if names or style.think:
        return lambda: Parser(style, prompt.opened, names)
    return PlainParser


async def chat(server, request):
    fields = Fields(await request.json())
    style, defaults = server.style, server.defaults
    wanted, stops = sampling.sampling(fields, defaults, request.key()), sampling.stops(fields)
    count, most, top = sampling.choices(fields), sampling.max_tokens(fields), sampling.chat_logprobs(fields)
    stream, usage = fields.flag('stream'), sampling.include_usage(fields)
    parallel, cache = fields.flag('parallel_tool_calls', True), fields.flag('cache_prompt', True)
    messages.response_schema(fields)
    server.require_ready()
    prompt = await prompt_of(server, fields)
    schema, trigger = schema_of(fields, prompt, style)
    make_parser = parser_of(style, prompt)
    special = make_parser is not PlainParser and not prompt.forced
    seeds = [(wanted['seed'] + i) % sampling.SEEDS for i in range(count)]
    asked = [protocol.submit(prompt.text, wanted | {'seed': seed}, most, () if special else stops, top, schema, cache, special, trigger)
             for seed in seeds]
    drop = (*style.drop, server.engine.ready.get('eos') or '') if special and style is not styles.HARMONY else ()
    params = {'prompt': 'messages', 'schema': 'tools' if prompt.forced else 'response_format'}
    choices = [Choice(make_parser(), drop, stops if special else (), parallel, style.short_ids, params) for _ in seeds]
    head = {'id': 'chatcmpl-' + secrets.token_hex(12), 'object': 'chat.completion', 'created': int(time.time()), 'model': server.name}
    with Answering(request, server.queue, asked, choices, head['id']) as answering:
        if stream:
            await ChatStream(answering, head | {'object': 'chat.completion.chunk'}, top, usage, wanted['seed']).answer()
        else:
            await answering.all()
            await request.reply_json(head | {
                'choices': [plain_choice(index, choice, top) for index, choice in enumerate(choices)], 'usage': answering.usage(),
                'timings': answering.timings(), 'seed': wanted['seed']})


def plain_choice(index, choice, top):
    return {'index': index, 'message': choice.message(), 'finish_reason': choice.reason,
            'logprobs': None if top is None else logprobs.chat(choice.entries, top)}


class ChatStream(Stream):
    def chunk(self, delta):
        return {'delta': delta}

    def logprobs(self, index, entries):
        return logprobs.chat(entries, self.top)

    def first(self):
        return [self.value(index, {'role': 'assistant', 'content': ''}) for index in range(len(self.told))]


async def apply_template(server, request):
    fields = Fields(await request.json())
    server.require_ready()
    await request.reply_json({'prompt': (await prompt_of(server, fields)).text})
