"""Reads calls of tools in the texts of models, in the forms in which their templates write them. Each function takes the body of a call, or
of several, and returns [(name, arguments as JSON)], or None if the body is something else."""
import json
import re


def call_of(value, names=('arguments', 'parameters')):
    """(name, arguments) of an object such as {"name": …, "arguments": …}; None."""
    if not isinstance(value, dict):
        return None
    if isinstance(value.get('function'), dict):
        value = value['function']
    name = value.get('name')
    arguments = next((value[key] for key in names if key in value), {})
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError):
            return None
    return (name, json.dumps(arguments, ensure_ascii=False)) if isinstance(name, str) and isinstance(arguments, dict) else None


def values_of(text):
    """The JSON values that follow one another in a text, with commas or semicolons between them; None if there is anything else."""
    values, decoder, text = [], json.JSONDecoder(), text.strip()
    try:
        while text:
            value, end = decoder.raw_decode(text)
            values.append(value)
            text = text[end:].lstrip(' \t\r\n;,')
    except (ValueError, RecursionError):
        return None
    return values


def json_calls(body):
    """One object, several, or a list of them."""
    values = values_of(body)
    if values is not None and len(values) == 1 and isinstance(values[0], list):
        values = values[0]
    calls = [call_of(value) for value in values or [None]]
    return None if None in calls else calls


def typed(text):
    """A parameter's value in XML: JSON if it is some, else the text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def xml_calls(body):
    """Qwen3-Coder: <function=NAME> <parameter=KEY> value </parameter> … </function>."""
    calls = []
    for name, inner in re.findall(r'<function=([^>\s]+)>(.*?)(?:</function>|\Z)', body, re.S):
        pairs = re.findall(r'<parameter=([^>\s]+)>\n?(.*?)\n?(?:</parameter>|(?=<parameter=)|\Z)', inner, re.S)
        calls.append((name, json.dumps({key: typed(value) for key, value in pairs}, ensure_ascii=False)))
    return calls or None


def hermes_calls(body):
    """What stands between <tool_call> and </tool_call>."""
    return json_calls(body) or xml_calls(body)


def mistral_calls(body):
    """What follows [TOOL_CALLS]: a list of objects, or NAME[ARGS]{…}, with [CALL_ID]… before [ARGS] in some versions."""
    if '[ARGS]' not in body:
        return json_calls(body)
    calls = []
    for part in filter(None, map(str.strip, body.split('[TOOL_CALLS]'))):
        head, _, arguments = part.partition('[ARGS]')
        calls.append(call_of({'name': head.partition('[CALL_ID]')[0].strip(), 'arguments': arguments.strip()}))
    return None if None in calls else calls


def deepseek_calls(body):
    """What follows <｜tool▁calls▁begin｜>: function<｜tool▁sep｜>NAME ```json … ```, or, from V3.1 on, NAME<｜tool▁sep｜>{…}."""
    calls = []
    for part in body.split('<｜tool▁call▁begin｜>')[1:]:
        head, found, rest = part.partition('<｜tool▁call▁end｜>')[0].partition('<｜tool▁sep｜>')
        fenced = re.fullmatch(r'\s*(\S+)\s*```(?:json)?\s*(.*?)\s*(?:```)?\s*', rest, re.S)
        calls.append(call_of({'name': fenced[1], 'arguments': fenced[2]} if fenced else {'name': head.strip(), 'arguments': rest.strip()}))
    return None if not calls or None in calls else calls
