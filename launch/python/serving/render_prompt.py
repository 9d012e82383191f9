"""Renders the chat template for `yamata run --chat`, as launch/serve does. Reads a JSON object: {"template", "bos", "eos", "messages"}; an
empty template is ChatML. Writes one: {"text": …} or {"error": …}."""
import asyncio
import json
import os
import pathlib
import sys
import types

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from serving import packages


async def rendered(wanted):
    """Raises HttpError, TemplateError."""
    from serving import chat, fields, styles, templates
    renderer = templates.Renderer()
    try:
        template = await renderer.template(wanted['template'] or templates.CHATML)
        server = types.SimpleNamespace(template=template, style=styles.style_of(template.source),
                                       engine=types.SimpleNamespace(ready={'bos': wanted['bos'], 'eos': wanted['eos']}))
        prompt = await chat.prompt_of(server, fields.Fields({'messages': wanted['messages']}))
        template.close()
        return prompt.text
    finally:
        renderer.close()


def answer():
    if packages.go_on_elsewhere(os.path.realpath(__file__), ('jinja2',)):
        return {'error': 'jinja2 is missing; install it with launch/install-packages --serve'}
    from serving.http_request import HttpError
    from serving.templates import TemplateError
    try:
        return {'text': asyncio.run(rendered(json.load(sys.stdin)))}
    except TemplateError as error:
        return {'error': f"the model's chat template cannot be used: {error}"}
    except HttpError as error:
        return {'error': str(error)}


if __name__ == '__main__':
    print(json.dumps(answer()))
