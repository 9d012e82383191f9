#!/usr/bin/env python3
"""Tests what clients of launch/serve are answered: chats, completions, streams, tokens, and what the server says of itself."""
import json
import os
import sys

import scene

ASK = [{'role': 'user', 'content': 'Name three colours.'}]
TOOL = {'type': 'function', 'function': {'name': 'weather', 'parameters': {'type': 'object', 'properties': {'city': {'type': 'string'}}}}}


def say(text):
    return f'«say»{text}«end»'


class Answers(scene.Scene):
    def text(self, **more):
        return self.server.chat(**more).json()['choices'][0]['message']['content']

    def test_a_chat_has_text_role_usage_and_timings(self):
        answer = self.server.chat(messages=ASK, max_tokens=24).json()
        choice, usage = answer['choices'][0], answer['usage']
        self.assertEqual((answer['object'], choice['index'], choice['message']['role']), ('chat.completion', 0, 'assistant'))
        self.assertTrue(choice['message']['content'])
        self.assertEqual((choice['finish_reason'], usage['completion_tokens']), ('length', 24))
        self.assertEqual(usage['total_tokens'], usage['prompt_tokens'] + 24)
        self.assertLessEqual({'prompt_n', 'predicted_n', 'predicted_per_second', 'draft_n'}, answer['timings'].keys())

    def test_each_path_counts_also_without_v1(self):
        body = {'prompt': 'Once', 'max_tokens': 8, 'temperature': 0}
        texts = {self.server.ask('POST', path, body).json()['choices'][0]['text'] for path in ('/completions', '/v1/completions')}
        self.assertEqual(len(texts), 1)
        self.assertEqual(self.server.ask('GET', '/models').json(), self.server.ask('GET', '/v1/models').json())

    def test_a_stream_is_the_plain_text_in_pieces(self):
        events = self.server.chat(messages=ASK, stream=True).events()
        self.assertEqual(len({(event['id'], event['created']) for event in events}), 1)
        self.assertEqual(events[0]['choices'][0]['delta'], {'role': 'assistant', 'content': ''})
        self.assertEqual([event['choices'][0]['finish_reason'] for event in events], [None] * (len(events) - 1) + ['length'])
        self.assertEqual(''.join(event['choices'][0]['delta'].get('content', '') for event in events), self.text(messages=ASK))
        self.assertFalse(any('usage' in event for event in events))

    def test_usage_is_a_chunk_of_its_own_if_asked(self):
        events = self.server.chat(stream=True, stream_options={'include_usage': True}).events()
        self.assertEqual([event['choices'] for event in events if 'usage' in event], [[]])

    def test_content_may_be_in_parts_and_developer_is_system(self):
        system, user = 'You are brief.', 'Hello'
        plain = self.text(messages=[{'role': 'system', 'content': system}, {'role': 'user', 'content': user}])
        parts = [{'role': 'developer', 'content': [{'type': 'text', 'text': system}]},
                 {'role': 'user', 'content': [{'type': 'text', 'text': user}]}]
        self.assertEqual(self.text(messages=parts), plain)
        self.assertNotEqual(self.text(messages=parts[1:]), plain)

    def test_a_seed_reproduces_is_said_and_counts_up_over_choices(self):
        def texts(**more):
            answer = self.server.chat(temperature=1, **more).json()
            return answer['seed'], [choice['message']['content'] for choice in answer['choices']]
        seed, first = texts()
        self.assertEqual(texts(seed=seed)[1], first)
        self.assertNotEqual(texts()[0], seed)
        three = texts(seed=2**64 - 1, n=3)[1]
        self.assertEqual(three, [texts(seed=it)[1][0] for it in (2**64 - 1, 0, 1)])
        self.assertEqual(len(set(three)), 3)

    def test_a_text_ends_before_a_stop_string(self):
        for stream in (False, True):
            answer = self.server.chat(say('one two three'), stop=['thr', 'zz'], stream=stream)
            if stream:
                text = ''.join(event['choices'][0]['delta'].get('content', '') for event in answer.events())
            else:
                text = answer.json()['choices'][0]['message']['content']
            self.assertEqual(text, 'one two ')

    def test_beside_tools_a_stop_string_ends_the_engines_work(self):
        def cancelled():
            text = self.server.ask('GET', '/metrics').data.decode()
            return int((text.split('reason="cancelled"} ')[1:] or ['0'])[0].split()[0])
        before = cancelled()
        answer = self.server.chat(say('one two three ' * 10) + '«slow»', tools=[TOOL], stop='two').json()
        self.assertEqual((answer['choices'][0]['message']['content'], answer['choices'][0]['finish_reason']), ('one ', 'stop'))
        self.assertLess(answer['usage']['completion_tokens'], 20)
        self.assertEqual(cancelled(), before + 1)

    def test_log_probabilities_have_bytes_and_alternatives(self):
        for stream in (False, True):
            answer = self.server.chat(say('é!'), logprobs=True, top_logprobs=2, stream=stream)
            parts = [event['choices'][0]['logprobs'] for event in answer.events()] if stream else [
                answer.json()['choices'][0]['logprobs']]
            entries = [entry for part in parts if part for entry in part['content']]
            self.assertEqual([entry['bytes'] for entry in entries], [[0xc3], [0xa9], [33]])
            self.assertEqual([len(entry['top_logprobs']) for entry in entries], [2, 2, 2])

    def test_completions_take_lists_ids_and_echo(self):
        ids = self.server.ask('POST', '/tokenize', {'content': 'Once upon'}).json()['tokens']
        body = {'prompt': ['Once upon', ids], 'max_tokens': 6, 'temperature': 0, 'echo': True, 'n': 2, 'logprobs': None}
        answer = self.server.ask('POST', '/v1/completions', body).json()
        self.assertEqual([choice['index'] for choice in answer['choices']], [0, 1, 2, 3])
        self.assertEqual(len({choice['text'] for choice in answer['choices']}), 1)
        self.assertTrue(answer['choices'][0]['text'].startswith('Once upon'))
        self.assertEqual(answer['usage'], {'prompt_tokens': 18, 'completion_tokens': 24, 'total_tokens': 42,
                                           'prompt_tokens_details': answer['usage']['prompt_tokens_details']})
        self.assertEqual(self.server.ask('POST', '/detokenize', {'tokens': ids}).json(), {'content': 'Once upon'})

    def test_streamed_completions_have_offsets_of_their_tokens(self):
        body = {'prompt': say('ab'), 'temperature': 0, 'logprobs': 1, 'stream': True}
        events = self.server.ask('POST', '/v1/completions', body).events()
        parts = [event['choices'][0]['logprobs'] for event in events if event['choices'][0]['logprobs']]
        self.assertEqual([part['text_offset'] for part in parts], [[0], [1]])

    def test_a_tool_is_called_and_its_result_taken(self):
        call = '<tool_call>\n{"name": "weather", "arguments": {"city": "Paris"}}\n</tool_call>'
        plain = self.server.chat(say(call), tools=[TOOL]).json()['choices'][0]
        self.assertEqual((plain['finish_reason'], plain['message']['content']), ('tool_calls', None))
        made = plain['message']['tool_calls']
        self.assertEqual([(it['function']['name'], json.loads(it['function']['arguments'])) for it in made],
                         [('weather', {'city': 'Paris'})])
        result = {'role': 'tool', 'tool_call_id': made[0]['id'], 'content': '21 degrees'}
        chat = {'messages': [*ASK, plain['message'], result], 'tools': [TOOL]}
        prompt = self.server.ask('POST', '/apply-template', chat).json()['prompt']
        self.assertIn('"city": "Paris"', prompt)
        self.assertIn('21 degrees', prompt)
        parts = [event['choices'][0]['delta']['tool_calls'][0] for event in self.server.chat(say(call), tools=[TOOL], stream=True).events()
                 if 'tool_calls' in event['choices'][0]['delta']]
        self.assertEqual([part.get('id') is not None for part in parts], [True] + [False] * (len(parts) - 1))
        self.assertEqual(json.loads(''.join(part['function']['arguments'] for part in parts)), {'city': 'Paris'})

    def test_without_tools_the_markers_of_calls_are_text(self):
        call = '<tool_call>\n{"name": "weather", "arguments": {}}\n</tool_call>'
        self.assertEqual(self.text(text=say(call), tools=[TOOL], tool_choice='none'), call)

    def test_a_required_call_is_the_whole_text(self):
        text = say('{"name": "weather", "arguments": {"city": "Rom"}}')
        for choice in ('required', {'type': 'function', 'function': {'name': 'weather'}}):
            answer = self.server.chat(text, tools=[TOOL], tool_choice=choice).json()['choices'][0]
            self.assertEqual(answer['finish_reason'], 'tool_calls')
            self.assertEqual(json.loads(answer['message']['tool_calls'][0]['function']['arguments']), {'city': 'Rom'})

    def test_the_server_says_what_it_has(self):
        model = self.server.ask('GET', '/v1/models').json()['data'][0]
        self.assertEqual((model['id'], model['object'], model['max_model_len']), ('model', 'model', 4096))
        self.assertEqual(self.server.ask('GET', '/health').json()['status'], 'ok')
        props = self.server.ask('GET', '/props').json()
        self.assertEqual((props['total_slots'], props['layout'], len(props['ranks'])), (1, 'all layers here', 1))
        self.assertEqual([slot['is_processing'] for slot in self.server.ask('GET', '/slots').json()], [False])
        metrics = self.server.ask('GET', '/metrics').data.decode()
        self.assertRegex(metrics, r'(?m)^yamata_ready 1$')
        self.assertRegex(metrics, r'(?m)^yamata_requests_total\{status="200"\} \d+$')

    def test_the_printed_command_works(self):
        answer = os.popen(self.server.curl + ' -s').read()
        self.assertIn('choices', json.loads(answer))

    def test_the_page_may_ask_this_server_alone(self):
        answer = self.server.ask('GET', '/')
        policy = answer.headers['content-security-policy']
        self.assertIn("default-src 'none'; connect-src 'self'; script-src 'sha256-", policy)
        self.assertNotIn('unsafe', policy)


if __name__ == '__main__':
    scene.main(sys.argv[0])
