"""How the models of a template write thinking and tool calls, found by the markers in the template."""
import dataclasses
import json
from typing import Callable, Optional

from . import tool_calls

CALL = '<tool_call>'


@dataclasses.dataclass(frozen=True)
class Style:
    """`begin`, `end`: around a body of calls; no end: it goes to the end of the text. `bare`: calls may also be the whole text, as JSON.
    `forced`: how an answer begins that must be a call; then comes one JSON object with `arguments`. `takes_tools`: the template shows the
    tools to the model. `bare_calls`: it expects no content beside calls, not even an empty one. `thinking`: how it calls the thinking of
    a message."""

    name: str
    begin: tuple = ()
    end: str = ''
    read: Optional[Callable] = None
    bare: bool = False
    forced: str = ''
    arguments: str = 'arguments'
    takes_tools: bool = True
    short_ids: bool = False
    think: tuple = ()  # the markers around thinking
    drop: tuple = ()   # markers that are no text
    bare_calls: bool = False
    thinking: str = 'reasoning_content'


HERMES = Style('hermes', (CALL,), '</tool_call>', tool_calls.hermes_calls, forced=CALL + '\n')
LLAMA3 = Style('llama3', ('<|python_tag|>',), '', tool_calls.json_calls, bare=True, arguments='parameters',
               drop=('<|eot_id|>', '<|eom_id|>'))
MISTRAL = Style('mistral', ('[TOOL_CALLS]',), '', tool_calls.mistral_calls, forced='[TOOL_CALLS][', short_ids=True)
DEEPSEEK = Style('deepseek', ('<｜tool▁calls▁begin｜>',), '<｜tool▁calls▁end｜>', tool_calls.deepseek_calls,
                 drop=('<｜end▁of▁sentence｜>',), bare_calls=True)
HARMONY = Style('harmony', drop=('<|return|>', '<|call|>', '<|end|>'), thinking='thinking')
GENERIC = Style('generic', (CALL,), '</tool_call>', tool_calls.hermes_calls, takes_tools=False, forced=CALL + '\n')

MARKERS = (('<|channel|>', HARMONY), ('<｜tool▁calls▁begin｜>', DEEPSEEK), ('[TOOL_CALLS]', MISTRAL), (CALL, HERMES), ('<function=', HERMES),
           ('<|python_tag|>', LLAMA3), ('<|start_header_id|>', LLAMA3))


def style_of(template):
    """The Style of a chat template."""
    found = next((style for marker, style in MARKERS if marker in template), GENERIC)
    if found is not HARMONY and 'tools' not in template:
        found = dataclasses.replace(GENERIC, drop=found.drop)
    if found is not HARMONY and '</think>' in template:
        found = dataclasses.replace(found, think=('<think>', '</think>'))
    return found


def opens_thinking(style, prompt):
    """Whether the prompt ends within thinking, which the answer then continues."""
    if not style.think:
        return False
    return prompt.rfind(style.think[0]) > prompt.rfind(style.think[1]) and prompt.rstrip().endswith(style.think[0])


def described(tools):
    """The system prompt that shows tools to a model whose template has no place for them."""
    lines = '\n'.join(json.dumps(tool, ensure_ascii=False) for tool in tools)
    return ('You may call one or more functions to assist with the user query. The functions, in <tools></tools>:\n<tools>\n' + lines +
            '\n</tools>\nFor each function call return a JSON object within <tool_call></tool_call>:\n<tool_call>\n'
            '{"name": <function name>, "arguments": <object>}\n</tool_call>')


def as_expected(style, message):
    """A message with the names and values that the templates of a style look for."""
    message = dict(message)
    if 'reasoning_content' in message:
        message[style.thinking] = message.pop('reasoning_content')
    if style.bare_calls and 'tool_calls' in message and not message['content']:
        message['content'] = None
    if style is HARMONY and 'tool_calls' in message and message['content']:
        message.pop('thinking', None)  # it refuses both
    return message


def with_system_in_user(messages):
    """The messages for templates that take no system prompt: it begins the first message of the user. None: there is none for it."""
    if len(messages) < 2 or [message['role'] for message in messages[:2]] != ['system', 'user']:
        return None
    return [messages[1] | {'content': f'{messages[0]["content"]}\n\n{messages[1]["content"]}'}, *messages[2:]]


def shown_to(style, messages, tools):
    """(messages, tools) for the template. Where it has no place for tools, they and their results become text."""
    if style.takes_tools:
        return [as_expected(style, message) for message in messages], tools or None
    rewritten = []
    for message in messages:
        message = dict(message)
        if calls := message.pop('tool_calls', None):
            texts = [f'<tool_call>\n{json.dumps(call["function"], ensure_ascii=False)}\n</tool_call>' for call in calls]
            message['content'] = '\n'.join(filter(None, [message['content'], *texts]))
        if message['role'] == 'tool':
            message = {'role': 'user', 'content': f'<tool_response>\n{message["content"]}\n</tool_response>'}
        rewritten.append(message)
    if tools:
        first = rewritten[0]['content'] + '\n\n' if rewritten[0]['role'] == 'system' else ''
        rest = rewritten[1:] if rewritten[0]['role'] == 'system' else rewritten
        rewritten = [{'role': 'system', 'content': first + described(tools)}, *rest]
    return rewritten, None
