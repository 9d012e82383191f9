#!/usr/bin/env python3
"""Tests launch/serve with the packages openai, litellm and langchain-openai from PyPI: each completes a chat, a stream, a round with a
tool, and sees an error as what it is. They are installed into a virtual environment; without a network the test is skipped."""
import json
import os
import pathlib
import subprocess
import sys

import scene

FOLDER = pathlib.Path(os.environ.get('YAMATA_BUILD') or scene.ROOT / 'build') / 'clients-python'
PACKAGES = 'openai', 'litellm', 'langchain-openai'
ASK = [{'role': 'user', 'content': '«say»red, green«end»'}]
CALL = [{'role': 'user', 'content': '«say»<tool_call>{"name": "weather", "arguments": {"city": "Paris"}}</tool_call>«end»'}]
TOOL = {'type': 'function', 'function': {'name': 'weather', 'description': 'Weather of a city', 'parameters': {
    'type': 'object', 'properties': {'city': {'type': 'string'}}, 'required': ['city']}}}
TOO_LONG = [{'role': 'user', 'content': 'x' * 5000}]


def provide():
    python = FOLDER / 'bin' / 'python'
    if sys.prefix == str(FOLDER):
        return
    look = [python, '-c', 'import openai, litellm, langchain_openai, uvicorn, jinja2']
    if not python.exists() or subprocess.run(look, capture_output=True).returncode:
        made = subprocess.run([sys.executable, '-m', 'venv', '--clear', '--system-site-packages', FOLDER]).returncode == 0
        if not made or subprocess.run([python, '-m', 'pip', 'install', '-q', *PACKAGES]).returncode:
            print(f'skipped: {", ".join(PACKAGES)} cannot be installed into {FOLDER}')
            sys.exit(77)
    os.execv(python, [python, *sys.argv])


class Clients(scene.Scene):
    def setUp(self):
        self.base = f'http://127.0.0.1:{self.server.port}/v1'

    def assert_answers(self, chat):
        """A chat, a stream and a round of tools. `chat(messages, **more)`: what the package answers."""
        self.assertEqual(chat(ASK).choices[0].message.content, 'red, green')
        self.assertEqual(''.join(chunk.choices[0].delta.content or '' for chunk in chat(ASK, stream=True)), 'red, green')
        message = chat(CALL, tools=[TOOL]).choices[0].message
        self.assertEqual(json.loads(message.tool_calls[0].function.arguments), {'city': 'Paris'})
        result = {'role': 'tool', 'tool_call_id': message.tool_calls[0].id, 'content': '21 degrees'}
        self.assertTrue(chat([*CALL, message.model_dump(), result], tools=[TOOL]).choices)

    def test_openai(self):
        import openai
        client = openai.OpenAI(base_url=self.base, api_key='none', max_retries=0)

        def chat(messages, **more):
            return client.chat.completions.create(model='any', messages=messages, **more)
        self.assert_answers(chat)
        with self.assertRaises(openai.BadRequestError) as caught:
            chat(TOO_LONG)
        self.assertEqual(caught.exception.code, 'context_length_exceeded')

    def test_litellm(self):
        import litellm
        litellm.suppress_debug_info = True

        def chat(messages, **more):
            return litellm.completion(model='openai/any', api_base=self.base, api_key='none', messages=messages, **more)
        self.assert_answers(chat)
        with self.assertRaises(litellm.ContextWindowExceededError):
            chat(TOO_LONG)

    def test_langchain(self):
        import langchain_openai
        import openai
        model = langchain_openai.ChatOpenAI(base_url=self.base, api_key='none', model='any', max_retries=0)
        text = ASK[0]['content']
        self.assertEqual(model.invoke(text).content, 'red, green')
        self.assertEqual(''.join(chunk.content for chunk in model.stream(text)), 'red, green')
        with_tool = model.bind_tools([TOOL])
        asked = with_tool.invoke(CALL[0]['content'])
        self.assertEqual([(call['name'], call['args']) for call in asked.tool_calls], [('weather', {'city': 'Paris'})])
        result = {'role': 'tool', 'tool_call_id': asked.tool_calls[0]['id'], 'content': '21 degrees'}
        self.assertTrue(with_tool.invoke([*CALL, asked, result]).response_metadata)
        with self.assertRaisesRegex(openai.BadRequestError, 'maximum context length'):
            model.invoke(TOO_LONG[0]['content'])


if __name__ == '__main__':
    scene.go_on_or_skip(sys.argv[0])
    provide()
    scene.main(sys.argv[0])
