"""The messages and tools of a chat request, checked, in the form that templates expect."""
import hashlib
import json
import re

from .fields import refuse, shown

ROLES = 'system', 'developer', 'user', 'assistant', 'tool', 'function'
NAME = re.compile(r'[\w.:-]{1,64}')
REFUSED_PARTS = 'only text can be read, no images, audio or files'


def content_of(value, place):
    """The text of a message's content: a text, null, or a list of text parts."""
    if value is None:
        return ''
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        refuse(place, f'{place} is {shown(value)}, not a text or a list of parts')
    texts = []
    for i, part in enumerate(value):
        kind = part.get('type') if isinstance(part, dict) else None
        if isinstance(part, str):
            texts.append(part)
        elif kind in ('text', 'input_text', 'refusal') and isinstance(part.get('text', part.get('refusal')), str):
            texts.append(part.get('text', part.get('refusal')))
        else:
            refuse(f'{place}[{i}]', f'{place}[{i}] is {shown(kind or part)}; {REFUSED_PARTS}')
    return '\n'.join(texts)


def arguments_of(value, place):
    """The arguments of a tool call as an object: templates write them as JSON themselves."""
    if isinstance(value, str):
        try:
            value = json.loads(value or '{}')
        except (ValueError, RecursionError):
            refuse(place, f'{place} is {shown(value)}, not JSON')
    if not isinstance(value, dict):
        refuse(place, f'{place} is {shown(value)}, not a JSON object')
    return value


def short_id(text):
    """An id of nine letters and digits, as Mistral's templates demand."""
    return text if re.fullmatch('[A-Za-z0-9]{9}', text) else hashlib.sha256(text.encode()).hexdigest()[:9]


def tool_calls_of(value, place, short_ids):
    if not isinstance(value, list):
        refuse(place, f'{place} is {shown(value)}, not a list')
    calls = []
    for i, call in enumerate(value):
        function = call.get('function') if isinstance(call, dict) else None
        if not isinstance(function, dict) or not isinstance(function.get('name'), str):
            refuse(f'{place}[{i}]', f'{place}[{i}] has no function with a name')
        number = call.get('id') if isinstance(call.get('id'), str) else f'call_{i}'
        calls.append({'id': short_id(number) if short_ids else number, 'type': 'function', 'function': {
            'name': function['name'], 'arguments': arguments_of(function.get('arguments', '{}'), f'{place}[{i}].function.arguments')}})
    return calls


def message_of(value, place, names, short_ids):
    if not isinstance(value, dict):
        refuse(place, f'{place} is {shown(value)}, not an object')
    role = value.get('role')
    if role not in ROLES:
        refuse(f'{place}.role', f'{place}.role is {shown(role)}, not one of {", ".join(ROLES)}')
    role = {'developer': 'system', 'function': 'tool'}.get(role, role)
    message = {'role': role, 'content': content_of(value.get('content'), f'{place}.content')}
    if isinstance(value.get('name'), str):
        message['name'] = value['name']
    if role == 'assistant':
        if value.get('tool_calls'):
            message['tool_calls'] = tool_calls_of(value['tool_calls'], f'{place}.tool_calls', short_ids)
            names |= {call['id']: call['function']['name'] for call in message['tool_calls']}
        if isinstance(value.get('reasoning_content'), str):
            message['reasoning_content'] = value['reasoning_content']
    if role == 'tool' and isinstance(value.get('tool_call_id'), str):
        message['tool_call_id'] = short_id(value['tool_call_id']) if short_ids else value['tool_call_id']
        if message['tool_call_id'] in names:
            message.setdefault('name', names[message['tool_call_id']])
    return message


def messages_of(fields, short_ids=False):
    values = fields.list('messages')
    if not values:
        refuse('messages', 'messages is missing' if values is None else 'messages is empty')
    names = {}
    return [message_of(value, f'messages[{i}]', names, short_ids) for i, value in enumerate(values)]


def tools_of(fields):
    """The tools that may be called, [] if tool_choice is none; and the names of which one must be called, or None."""
    tools = fields.list('tools', [])
    for i, tool in enumerate(tools):
        function = tool.get('function') if isinstance(tool, dict) and tool.get('type', 'function') == 'function' else None
        if not isinstance(function, dict) or not isinstance(function.get('name'), str) or not NAME.fullmatch(function['name']):
            refuse(f'tools[{i}]', f'tools[{i}] is no function with a name of letters, digits, _ and -')
        if not isinstance(function.get('parameters') or {}, dict):
            refuse(f'tools[{i}].function.parameters', f'tools[{i}].function.parameters is no JSON schema')
    names = [tool['function']['name'] for tool in tools]
    choice = fields.body.get('tool_choice')
    if isinstance(choice, dict):
        name = (choice.get('function') or {}).get('name') if isinstance(choice.get('function') or {}, dict) else None
        if name not in names:
            refuse('tool_choice', f'tool_choice names {shown(name)}, which is none of the tools')
        return tools, [name]
    if choice not in (None, 'auto', 'none', 'required', 'any'):
        refuse('tool_choice', f'tool_choice is {shown(choice)}, not none, auto, required or a function')
    if choice in ('required', 'any') and not tools:
        refuse('tool_choice', 'tool_choice needs tools')
    return ([] if choice == 'none' else tools), (names if choice in ('required', 'any') else None)


def parameters_of(tools, name):
    function = next(tool['function'] for tool in tools if tool['function']['name'] == name)
    return function.get('parameters') or {'type': 'object', 'properties': {}}


def moved(schema, place, names=False):
    """The schema as a part of another one, at `place` ('#/properties/x'), from where its references go. `names`: its keys are names."""
    if isinstance(schema, list):
        return [moved(part, place) for part in schema]
    if not isinstance(schema, dict):
        return schema
    found = {}
    for key, value in schema.items():
        if not names and key == '$ref' and isinstance(value, str) and value.startswith('#'):
            found[key] = place + value[1:]
        elif not names and key in ('const', 'enum', 'default', 'examples'):
            found[key] = value
        else:
            found[key] = moved(value, place, not names and key in ('properties', '$defs', 'definitions'))
    return found


def response_schema(fields):
    """The JSON schema of response_format; None: any text."""
    wanted = fields.object('response_format')
    if wanted is None:
        return None
    kind = wanted.get('type')
    if kind == 'text':
        return None
    if kind == 'json_object':
        return wanted['schema'] if isinstance(wanted.get('schema'), dict) else {'type': 'object', 'additionalProperties': True}
    if kind == 'json_schema':
        inner = wanted.get('json_schema')
        schema = inner.get('schema') if isinstance(inner, dict) else wanted.get('schema')
        if not isinstance(schema, dict):
            refuse('response_format', 'response_format.json_schema.schema is no object')
        return schema
    refuse('response_format', f'response_format.type is {shown(kind)}, not text, json_object or json_schema')
