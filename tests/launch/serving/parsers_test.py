#!/usr/bin/env python3
"""Tests how the texts of models are divided into content, thinking and tool calls: each style of template, whole and in pieces of any
length."""
import json
import random
import sys
import unittest

import scene
from serving import messages, styles
from serving.answer_parser import ForcedParser, HarmonyParser, Parser, joined
from serving.text_filters import Remover, StopFilter

TOOLS = {'weather', 'time'}
PARIS, NOW = ('weather', '{"city": "Paris"}'), ('time', '{}')
HERMES = styles.style_of("{% if tools %}<tool_call>{% endif %}")
THINKING = styles.style_of("{% if tools %}<tool_call>{% endif %}{{ m.content.split('</think>') }}")
LLAMA = styles.style_of("{{ tools }}<|start_header_id|><|python_tag|>")
MISTRAL = styles.style_of("{{ tools }}[TOOL_CALLS]")
DEEPSEEK = styles.style_of("{{ tools }}<｜tool▁calls▁begin｜></think>")
BEGIN, CALL, SEP, CALL_END, END = (f'<｜tool▁{it}｜>' for it in ('calls▁begin', 'call▁begin', 'sep', 'call▁end', 'calls▁end'))
CASES = [
    ('hermes', HERMES, False, 'Let me see.\n<tool_call>\n{"name": "weather", "arguments": {"city": "Paris"}}\n</tool_call>\n<tool_call>'
     '{"name": "time", "arguments": {}}</tool_call>', [('content', 'Let me see.\n'), ('call', PARIS), ('call', NOW)]),
    ('hermes, the end of the call is missing', HERMES, False, '<tool_call>{"name": "time"}', [('call', NOW)]),
    ('hermes, damaged', HERMES, False, '<tool_call>{"name": "time"</tool_call> so',
     [('content', '<tool_call>{"name": "time"</tool_call> so')]),
    ('hermes, an unknown tool', HERMES, False, '<tool_call>{"name": "rm"}</tool_call>',
     [('content', '<tool_call>{"name": "rm"}</tool_call>')]),
    ('hermes, only text', HERMES, False, 'a < b, <tool_box>', [('content', 'a < b, <tool_box>')]),
    ('qwen coder', HERMES, False, '<tool_call>\n<function=weather>\n<parameter=city>\nParis\n</parameter>\n</function>\n</tool_call>',
     [('call', PARIS)]),
    ('thinking', THINKING, False, '<think>\nWell: <tool_call>\n</think>\n\nYes.',
     [('reasoning', 'Well: <tool_call>\n'), ('content', 'Yes.')]),
    ('thinking that the prompt has begun', THINKING, True, 'Well.\n</think>\n\n<tool_call>{"name": "time"}</tool_call>',
     [('reasoning', 'Well.\n'), ('call', NOW)]),
    ('thinking that does not end', THINKING, True, 'Well.', [('reasoning', 'Well.')]),
    ('empty thinking', THINKING, False, '<think>\n\n</think>\n\nYes.', [('content', 'Yes.')]),
    ('llama 3', LLAMA, False, '{"name": "weather", "parameters": {"city": "Paris"}}', [('call', PARIS)]),
    ('llama 3, with a tag', LLAMA, False, '<|python_tag|>{"name": "time", "parameters": {}}; {"name": "weather", "parameters": '
     '{"city": "Paris"}}', [('call', NOW), ('call', PARIS)]),
    ('llama 3, other JSON', LLAMA, False, '{"a": 1}', [('content', '{"a": 1}')]),
    ('llama 3, other JSON behind an empty line', LLAMA, False, '\n{"a": 1}', [('content', '{"a": 1}')]),
    ('llama 3, text', LLAMA, False, 'It is {"name": "time"}', [('content', 'It is {"name": "time"}')]),
    ('mistral', MISTRAL, False, '[TOOL_CALLS][{"name": "weather", "arguments": {"city": "Paris"}}, {"name": "time", "arguments": {}}]',
     [('call', PARIS), ('call', NOW)]),
    ('mistral, newer', MISTRAL, False, 'So [TOOL_CALLS]weather[CALL_ID]1[ARGS]{"city": "Paris"}[TOOL_CALLS]time[ARGS]{}',
     [('content', 'So '), ('call', PARIS), ('call', NOW)]),
    ('deepseek', DEEPSEEK, True, f'Hm.</think>Now{BEGIN}{CALL}function{SEP}weather\n```json\n{{"city": "Paris"}}\n```{CALL_END}{END}',
     [('reasoning', 'Hm.'), ('content', 'Now'), ('call', PARIS)]),
    ('deepseek 3.1', DEEPSEEK, False, f'{BEGIN}{CALL}weather{SEP}{{"city": "Paris"}}{CALL_END}{CALL}time{SEP}{{}}{CALL_END}{END}',
     [('call', PARIS), ('call', NOW)]),
]
HARMONY = [
    ('<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Yes < no.', [('reasoning', 'Hm.'),
                                                                                                      ('content', 'Yes < no.')]),
    ('<|channel|>commentary to=functions.weather <|constrain|>json<|message|>{"city": "Paris"}<|call|>', [('call', PARIS)]),
    ('<|channel|>commentary to=functions.weather <|constrain|>json<|message|>{"city": "Paris"}', [('call', PARIS)]),
    ('<|channel|>commentary to=functions.rm<|message|>{}', [('content', '{}')]),
]


def pieces_of(text, chance):
    while text:
        count = chance.choice([1, 1, 2, 3, 10])
        yield text[:count]
        text = text[count:]


def parsed(parser, pieces):
    parts = []
    for piece in pieces:
        parts += parser.feed(piece)
    return joined(parts + parser.end())


class Parsers(unittest.TestCase):
    def assert_parsed(self, make, text, expected):
        self.assertEqual(parsed(make(), [text]), expected)
        for seed in range(20):
            self.assertEqual(parsed(make(), pieces_of(text, random.Random(seed))), expected, f'seed {seed}')

    def test_each_style(self):
        for name, style, opened, text, expected in CASES:
            with self.subTest(name):
                self.assert_parsed(lambda: Parser(style, opened, TOOLS), text, expected)

    def test_harmony(self):
        for text, expected in HARMONY:
            with self.subTest(text):
                self.assert_parsed(lambda: HarmonyParser(TOOLS), text, expected)

    def test_without_tools_calls_are_text(self):
        for style in (HERMES, MISTRAL, LLAMA):
            text = f'{(*style.begin, "")[0]}{{"name": "time"}}'
            self.assert_parsed(lambda: Parser(style, False, set()), text, [('content', text)])

    def test_a_forced_call(self):
        self.assert_parsed(ForcedParser, '{"name": "weather", "arguments": {"city": "Paris"}}', [('call', PARIS)])
        self.assert_parsed(ForcedParser, '{"name": "weather", "parameters": {"city": "Paris"}}', [('call', PARIS)])
        self.assert_parsed(ForcedParser, '{"name": "wea', [('content', '{"name": "wea')])

    def test_random_texts_of_markers_never_fail_and_pieces_change_nothing(self):
        words = ['<tool_call>', '</tool_call>', '<think>', '</think>', '{"name": "time"}', ' a', '\n', '[TOOL_CALLS]', '[ARGS]', '<', BEGIN,
                 CALL, SEP, CALL_END, END, '<function=time>', '<|channel|>', '<|message|>', '<|end|>',
                 'analysis', 'to=time', '<|python_tag|>']
        for seed in range(3000 if scene.THOROUGH else 300):
            chance = random.Random(seed)
            text = ''.join(chance.choice(words) for _ in range(chance.randrange(12)))
            style = chance.choice([HERMES, THINKING, LLAMA, MISTRAL, DEEPSEEK])
            for make in (lambda: Parser(style, False, TOOLS), lambda: HarmonyParser(TOOLS), ForcedParser):
                with self.subTest(seed=seed, text=text):
                    self.assertEqual(parsed(make(), [text]), parsed(make(), pieces_of(text, chance)))


class Stops(unittest.TestCase):
    def test_cases_that_the_engine_also_has(self):
        lines = (scene.ROOT / 'tests' / 'tokenizer' / 'stop_strings.txt').read_text(encoding='utf-8').splitlines()
        cases = [line.split(' | ') for line in lines if not line.startswith('#')]
        self.assertGreater(len(cases), 10)
        for text, stops, expected in cases:
            for size in 1, 3, len(text):
                with self.subTest(text=text, stops=stops, size=size):
                    stop_filter = StopFilter(filter(None, stops.split(',')))
                    got = ''.join(stop_filter.feed(text[at:at + size]) for at in range(0, len(text), size)) + stop_filter.end()
                    self.assertEqual(got, expected)


class Styles(unittest.TestCase):
    def test_templates_are_known_by_their_markers(self):
        for template, name in (('{{ tools }}<tool_call>', 'hermes'), ('{{ tools }}<|python_tag|>', 'llama3'),
                               ('{{ tools }}[TOOL_CALLS]', 'mistral'), ('{{ tools }}<|channel|>', 'harmony'),
                               ('<start_of_turn>', 'generic'), ('<|im_start|>', 'generic')):
            self.assertEqual(styles.style_of(template).name, name)

    def test_a_prompt_that_ends_within_thinking_opens_it(self):
        for prompt, opened in (('<think>\n', True), ('<think>a</think>', False), ('', False), ('<think> in the question', False)):
            self.assertEqual(styles.opens_thinking(THINKING, prompt), opened)

    def test_where_a_template_has_no_place_tools_become_text(self):
        call = {'id': '1', 'type': 'function', 'function': {'name': 'time', 'arguments': {}}}
        chat = [{'role': 'system', 'content': 'Be brief.'}, {'role': 'assistant', 'content': '', 'tool_calls': [call]},
                {'role': 'tool', 'content': '12:00'}]
        shown, tools = styles.shown_to(styles.GENERIC, chat, [{'type': 'function', 'function': {'name': 'time'}}])
        self.assertIsNone(tools)
        self.assertEqual([message['role'] for message in shown], ['system', 'assistant', 'user'])
        self.assertTrue(shown[0]['content'].startswith('Be brief.\n\n'))
        self.assertEqual(json.loads(shown[1]['content'].removeprefix('<tool_call>\n').removesuffix('\n</tool_call>')),
                         {'name': 'time', 'arguments': {}})


class Filters(unittest.TestCase):
    def filtered(self, made, pieces):
        return ''.join([*map(made.feed, pieces), made.end()])

    def test_stop_strings_in_pieces(self):
        for seed in range(300):
            chance = random.Random(seed)
            text = ''.join(chance.choice('ab') for _ in range(20))
            stops = [''.join(chance.choice('ab') for _ in range(chance.randrange(1, 5))) for _ in range(2)]
            ends = [(at + len(stop), at) for stop in stops if (at := text.find(stop)) >= 0]  # that which is complete first
            expected = text[:min(ends, default=(0, 20))[1]]
            self.assertEqual(self.filtered(StopFilter(stops), pieces_of(text, chance)), expected, (text, stops))

    def test_markers_are_removed_in_pieces(self):
        for seed in range(50):
            chance = random.Random(seed)
            self.assertEqual(self.filtered(Remover(['<|im_end|>', '']), pieces_of('a<|im_<|im_end|>b<', chance)), 'a<|im_b<')


class Schemas(unittest.TestCase):
    def test_references_move_with_their_schema(self):
        node = {'type': 'object', 'properties': {'next': {'$ref': '#/$defs/node'}, 'default': {'$ref': '#'},
                                                 '$ref': {'enum': [{'$ref': '#'}]}}}
        moved = messages.moved({'$defs': {'node': node}, 'anyOf': [{'$ref': '#/$defs/node'}, {'const': {'$ref': '#x'}}]}, '#/a/b')
        inner = moved['$defs']['node']['properties']
        self.assertEqual((inner['next'], inner['default']), ({'$ref': '#/a/b/$defs/node'}, {'$ref': '#/a/b'}))
        self.assertEqual(inner['$ref'], {'enum': [{'$ref': '#'}]})
        self.assertEqual(moved['anyOf'], [{'$ref': '#/a/b/$defs/node'}, {'const': {'$ref': '#x'}}])


if __name__ == '__main__':
    unittest.main()
