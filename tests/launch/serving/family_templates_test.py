#!/usr/bin/env python3
"""Tests chats with the templates of model families: a system prompt, a round with a tool, thinking; what a template writes for a call is
what the parser of its style reads."""
import sys
import types
import unittest

import family_templates
import scene

SYSTEM, USER = {'role': 'system', 'content': 'Be brief.'}, {'role': 'user', 'content': 'Weather in Paris?'}
TOOL = {'type': 'function', 'function': {'name': 'weather', 'description': 'Weather of a city', 'parameters': {
    'type': 'object', 'properties': {'city': {'type': 'string'}}, 'required': ['city']}}}
ARGUMENTS = '{"city": "Paris"}'
ROUND = [{'role': 'assistant', 'content': None, 'reasoning_content': 'I look.', 'tool_calls': [
    {'id': 'call_1', 'type': 'function', 'function': {'name': 'weather', 'arguments': ARGUMENTS}}]},
    {'role': 'tool', 'tool_call_id': 'call_1', 'content': '21 degrees'}]
# name: style, whether thinking of this round is shown again, what stands around the system prompt, what the result looks like
FAMILIES = {
    'CHATML': ('generic', False, '<|im_start|>system\nBe brief.',
               '<|im_start|>user\n<tool_response>\n21 degrees\n</tool_response><|im_end|>'),
    'QWEN': ('hermes', True, '<|im_start|>system\nBe brief.',
             '<|im_start|>user\n<tool_response>\n21 degrees\n</tool_response><|im_end|>'),
    'LLAMA3': ('llama3', False, '\n\nBe brief.<|eot_id|>', '<|start_header_id|>ipython<|end_header_id|>\n\n"21 degrees"<|eot_id|>'),
    'MISTRAL': ('mistral', False, '[INST]Be brief.\n\nWeather', '[TOOL_RESULTS]{"content": "21 degrees", "call_id": "'),
    'HARMONY': ('harmony', True, '<|start|>developer<|message|># Instructions\n\nBe brief.',
                '<|start|>functions.weather to=assistant<|channel|>commentary<|message|>"21 degrees"<|end|>'),
    'DEEPSEEK': ('deepseek', False, '<s>Be brief.', '<｜tool▁outputs▁begin｜><｜tool▁output▁begin｜>21 degrees<｜tool▁output▁end｜>'),
    'GEMMA': ('generic', False, '<start_of_turn>user\nBe brief.', '<start_of_turn>user\n<tool_response>\n21 degrees\n</tool_response><end'),
    'PHI3': ('generic', False, '<|system|>\nBe brief.', '<|user|>\n<tool_response>\n21 degrees\n</tool_response><|end|>'),
    'PHI4': ('generic', False, '<|im_start|>system<|im_sep|>Be brief.', '<|im_sep|><tool_response>\n21 degrees\n</tool_response>'),
}


class Families(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self):
        from serving import templates
        self.renderer = templates.Renderer()
        self.addCleanup(self.renderer.close)

    async def server(self, family):
        from serving import styles
        template = await self.renderer.template(getattr(family_templates, family))
        self.addCleanup(template.close)
        return types.SimpleNamespace(template=template, style=styles.style_of(template.source),
                                     engine=types.SimpleNamespace(ready={'bos': '<s>', 'eos': '</s>'}))

    async def prompt(self, server, messages, **more):
        from serving import chat, fields
        return await chat.prompt_of(server, fields.Fields({'messages': messages, **more}))

    async def test_a_system_prompt(self):
        for family, (style, _, system, _) in FAMILIES.items():
            with self.subTest(family):
                server = await self.server(family)
                text = (await self.prompt(server, [SYSTEM, USER])).text
                self.assertEqual(server.style.name, style)
                self.assertIn(system, text)
                self.assertEqual(text.count('Be brief.'), 1)
                self.assertLess(text.index('Be brief.'), text.index('Weather in Paris?'))
                self.assertNotIn('weather', text)

    async def test_a_round_with_a_tool(self):
        for family, (_, again, _, result) in FAMILIES.items():
            with self.subTest(family):
                server = await self.server(family)
                text = (await self.prompt(server, [SYSTEM, USER, *ROUND], tools=[TOOL])).text
                self.assertIn('"description": "Weather of a city"' if family != 'HARMONY' else '// Weather of a city', text)
                self.assertIn(result, text)
                self.assertLess(text.index('Weather in Paris?'), text.index('21 degrees'))
                self.assertEqual('I look.' in text, again)

    async def test_the_calls_that_a_template_writes_are_read(self):
        """The text behind the prompt in which the template shows a call is how the model writes one."""
        from serving import chat
        from serving.text_filters import Remover
        for family in FAMILIES:
            with self.subTest(family):
                server = await self.server(family)
                asked = await self.prompt(server, [USER], tools=[TOOL])
                shown = (await self.prompt(server, [USER, ROUND[0]], tools=[TOOL], add_generation_prompt=False)).text
                begin = asked.text.removesuffix('<think>\n')
                self.assertTrue(shown.startswith(begin), (shown, begin))
                parser = chat.parser_of(server.style, asked)()
                text = ('I look.\n</think>\n' if asked.opened else '') + shown[len(begin):]
                text = Remover((*server.style.drop, '</s>') if server.style.name != 'harmony' else ()).feed(text)  # as chat.py
                calls = [value for kind, value in [*parser.feed(text), *parser.end()] if kind == 'call']
                self.assertEqual(calls, [('weather', ARGUMENTS)])

    async def test_thinking(self):
        qwen, deepseek, harmony = [await self.server(family) for family in ('QWEN', 'DEEPSEEK', 'HARMONY')]
        self.assertTrue((await self.prompt(deepseek, [USER])).opened)
        for more, end in (({}, 'assistant\n'), ({'reasoning_effort': 'none'}, 'assistant\n<think>\n\n</think>\n\n'),
                          ({'chat_template_kwargs': {'enable_thinking': False}}, 'assistant\n<think>\n\n</think>\n\n')):
            asked = await self.prompt(qwen, [USER], **more)
            self.assertTrue(asked.text.endswith(end) and not asked.opened, asked)
        self.assertIn('Reasoning: high', (await self.prompt(harmony, [USER], reasoning_effort='high')).text)
        later = [USER, {'role': 'assistant', 'content': 'Sunny.', 'reasoning_content': 'I look.'}, USER]
        for server in qwen, deepseek, harmony:  # that of an answer before is left out
            self.assertNotIn('I look.', (await self.prompt(server, later)).text)

    async def test_what_a_template_does_not_take_is_said(self):
        from serving.http_request import HttpError
        for family, messages, said in (('GEMMA', [USER, USER], 'must alternate'), ('GEMMA', [SYSTEM, USER, USER], 'must alternate'),
                                       ('GEMMA', [SYSTEM], 'System role not supported'), ('MISTRAL', [USER, USER], 'must alternate')):
            with self.subTest(family):
                with self.assertRaises(HttpError) as caught:
                    await self.prompt(await self.server(family), messages)
                self.assertIn(said, str(caught.exception))


if __name__ == '__main__':
    scene.main(sys.argv[0])
