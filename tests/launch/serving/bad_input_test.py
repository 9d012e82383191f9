#!/usr/bin/env python3
"""Tests that launch/serve answers bad requests in the error form, names the field, and lives on; also 200 mutated requests (in thorough
runs 2,000; YAMATA_MUTATIONS=N: N)."""
import json
import os
import pathlib
import random
import sys

import scene

MUTATIONS = int(os.environ.get('YAMATA_MUTATIONS', 2000 if scene.THOROUGH else 200))
GOOD = {'messages': [{'role': 'user', 'content': 'Hello'}], 'max_tokens': 4, 'temperature': 0.5, 'stop': ['x'], 'seed': 1, 'n': 1,
        'tools': [{'type': 'function', 'function': {'name': 'f', 'parameters': {'type': 'object'}}}], 'logit_bias': {'5': 1}}
WRONG = {
    'messages': [5, [], [5], [{}], [{'role': 'king'}], [{'role': 'user', 'content': 5}],
                 [{'role': 'user', 'content': [{'type': 'image_url'}]}], [{'role': 'assistant', 'tool_calls': 'x'}],
                 [{'role': 'assistant', 'tool_calls': [{'function': {}}]}],
                 [{'role': 'assistant', 'tool_calls': [{'function': {'name': 'f', 'arguments': '{'}}]}]],
    'max_tokens': [0, -5, 'many', 1.5, True, 1e300], 'max_completion_tokens': [0, 'x'], 'temperature': ['hot', -1, 1e9, True],
    'top_p': [2, 'x'], 'top_k': [-2, 1.5], 'min_p': [-0.1], 'n': [0, 99, 'x'], 'seed': ['x', 2**64, 1.5], 'presence_penalty': [3],
    'frequency_penalty': [-3], 'repeat_penalty': [0], 'stop': [5, [''], '', list('abcde'), [5]], 'stream': ['yes', 1],
    'logit_bias': [5, {'x': 1}, {'5': 101}, {'5': 'x'}, {'-1': 1}, {'٥': 1}], 'logprobs': ['x', 3], 'top_logprobs': [21, -1],
    'response_format': [5, {'type': 'xml'}, {'type': 'json_schema'}, {'type': 'json_schema', 'json_schema': {'schema': 5}}],
    'tools': [5, [5], [{'type': 'function'}], [{'type': 'function', 'function': {'name': 'a b'}}],
              [{'type': 'function', 'function': {'name': 'f', 'parameters': 5}}]],
    'tool_choice': ['always', {'type': 'function', 'function': {'name': 'g'}}, 5], 'parallel_tool_calls': ['x'],
    'chat_template_kwargs': [5, {'messages': []}], 'stream_options': [5], 'reasoning_effort': [5], 'cache_prompt': ['x'],
}


class BadInput(scene.Scene):
    def post(self, body, path='/v1/chat/completions', **headers):
        return self.server.ask('POST', path, body, headers)

    def assert_error(self, answer, status, param=None, code=None):
        self.assertEqual(answer.status, status, answer.data)
        error = answer.error()
        self.assertEqual(error.keys(), {'message', 'type', 'param', 'code'})
        self.assertTrue(error['message'])
        if param:
            self.assertTrue((error['param'] or '').startswith(param), error)
        if code:
            self.assertEqual(error['code'], code)

    def test_a_body_that_is_no_json_object_is_refused(self):
        good = b'{"messages": [{"role": "user", "content": "x"}], "max_tokens": 1, "user": %s}'
        self.assertEqual(self.post(good % b'1').status, 200)
        for body in (b'', b'{"messages": [', b'[]', b'5', b'null', b'\xff\xfe', good % b'NaN', good % b'"\\ud800"', b'[' * 100000,
                     good % (b'9' * 5000), good % (b'9' * 400), good % b'1e999', (good % b'1').decode().encode('utf-16')):
            with self.subTest(body[:30]):
                self.assert_error(self.post(body), 400)

    def test_each_field_with_a_wrong_value_is_named(self):
        for name, values in WRONG.items():
            for value in values:
                with self.subTest(name, value=value):
                    self.assert_error(self.post(GOOD | {'logprobs': True} | {name: value}), 400, name)

    def test_prompts_of_completions_are_checked(self):
        for value in (None, 5, [], [5, 'x'], [[]], [[-1]], {'a': 1}, ['x'] * 65):
            with self.subTest(value):
                self.assert_error(self.post({'prompt': value}, '/v1/completions'), 400, 'prompt')
        self.assert_error(self.post({'prompt': 'x', 'echo': True, 'logprobs': 1}, '/v1/completions'), 400, 'echo')
        self.assert_error(self.post({'prompt': 'x', 'suffix': 'y'}, '/v1/completions'), 400, 'suffix')

    def test_a_null_field_and_an_unknown_one_are_as_absent(self):
        nulls = {name: None for name in WRONG if name != 'messages'}
        self.assertEqual(self.post({'messages': GOOD['messages'], 'max_tokens': 1, 'frobnicate': 1, 'user': 'me'}).status, 200)
        self.assertEqual(self.post(nulls | {'messages': GOOD['messages'], 'max_completion_tokens': 1}).status, 200)

    def test_too_long_a_prompt_says_how_long_the_context_is(self):
        for stream in (False, True):
            answer = self.post({'messages': [{'role': 'user', 'content': 'x' * 5000}], 'stream': stream})
            self.assert_error(answer, 400, code='context_length_exceeded')
            self.assertIn('maximum context length is 4096 tokens', answer.error()['message'])

    def test_a_prompt_that_is_much_too_long_is_refused_as_another(self):
        for letter in (' ', 'é'):
            for path, body in (('/v1/completions', {'prompt': letter * (2 << 20)}), ('/v1/chat/completions', {
                    'messages': [{'role': 'user', 'content': letter * (2 << 20)}]})):
                with self.subTest(path, letter=letter):
                    answer = self.post(body | {'max_tokens': 1}, path)
                    self.assert_error(answer, 400, code='context_length_exceeded')
                    self.assertIn('maximum context length is 4096 tokens', answer.error()['message'])
        self.assert_error(self.post({'content': '7' * ((1 << 20) + 1)}, '/tokenize'), 413, 'content')
        self.assert_error(self.post({'tokens': [5] * ((1 << 18) + 1)}, '/detokenize'), 413, 'tokens')
        self.assertEqual(self.post(GOOD | {'tools': None}).status, 200)

    def test_a_schema_that_the_engine_refuses_is_named_as_the_client_calls_it(self):
        for schema in ({'type': 'strange'}, {'type': 'object', 'not': {}}):
            wanted = {'type': 'json_schema', 'json_schema': {'name': 'x', 'schema': schema}}
            answer = self.post(GOOD | {'response_format': wanted, 'tools': None})
            self.assert_error(answer, 400, 'response_format')
            self.assertIn('not', answer.error()['message'])

    def test_unknown_tokens_cannot_be_detokenized(self):
        self.assert_error(self.post({'tokens': [5000]}, '/detokenize'), 400, 'tokens')
        self.assert_error(self.post({'tokens': ['x']}, '/detokenize'), 400, 'tokens')
        self.assert_error(self.post({}, '/tokenize'), 400, 'content')

    def test_unknown_paths_and_methods(self):
        self.assert_error(self.server.ask('GET', '/v1/nothing'), 404)
        self.assert_error(self.server.ask('GET', '/v1/v1/models'), 404)
        answer = self.server.ask('GET', '/v1/chat/completions')
        self.assert_error(answer, 405)
        self.assertEqual(answer.headers['allow'], 'POST')
        for path in ('/v1/embeddings', '/v1/responses'):
            self.assert_error(self.post({}, path), 501)

    def test_only_json_is_taken(self):
        for kind in ('text/plain', 'application/x-www-form-urlencoded', None, ''):
            self.assert_error(self.server.ask('POST', '/v1/chat/completions', GOOD, {'content-type': kind}), 415)

    def test_a_body_beyond_the_limit_is_refused(self):
        self.assert_error(self.post(b' ' * ((32 << 20) + 1)), 413)

    def test_what_is_no_http_gets_an_error_and_the_server_lives(self):
        for data in (b'GARBAGE\r\n\r\n\x00\xff' * 50, b'GET / HTTP/1.1\r\nhost: x y\x00\r\n\r\n',
                     b'POST / HTTP/1.1\r\n' + b'a: b\r\n' * 20000,
                     b'GET / HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n'):
            with self.server.socket() as connection:
                received = b''
                try:
                    connection.sendall(data)
                    while piece := connection.recv(65536):
                        received += piece
                except ConnectionError:
                    pass
                if received:
                    self.assertIn(b' 400 ', received.split(b'\r\n')[0])
                    self.assertIn('message', json.loads(received.partition(b'\r\n\r\n')[2])['error'])
        self.assertEqual(self.server.ask('GET', '/health').status, 200)


class Mutations(scene.Scene):
    """Requests with random damage: each is answered, by an error in its form if it is one, and the server lives."""

    VALUES = [None, True, -1, 0, 1e308, -1e-308, 2**70, '', 'x' * 3000, '\0', '\u202e', [], {}, [[[]]], {'a': {'b': {}}}, 'NaN', '{{ 9 }}']

    def damaged_value(self, value, random):
        if isinstance(value, dict) and value and random.random() < 0.8:
            key = random.choice(list(value))
            return {**value, key: self.damaged_value(value[key], random)}
        if isinstance(value, list) and value and random.random() < 0.8:
            at = random.randrange(len(value))
            return [*value[:at], self.damaged_value(value[at], random), *value[at + 1:]]
        return random.choice(self.VALUES)

    def damaged_bytes(self, data, random):
        data = bytearray(data)
        for _ in range(random.choice([1, 1, 2, 8])):
            at = random.randrange(len(data))
            what = random.randrange(3)
            if what == 0:
                data[at] = random.randrange(256)
            elif what == 1:
                del data[at:at + random.randrange(1, 20)]
            else:
                data[at:at] = random.choice([b'\r\n', b'\0', b'{', b'0', b'\xff', b'\r\n\r\n', b': '])
            data = data or bytearray(b'x')
        return bytes(data)

    def request(self, random):
        """(bytes, whether its HTTP is whole)."""
        body = GOOD | {'stream': random.random() < 0.3}
        path = random.choice(['/v1/chat/completions', '/v1/completions', '/tokenize', '/detokenize', '/apply-template', '/props', '/'])
        if random.random() < 0.5:
            body |= {'prompt': random.choice(['Hello', [72, 101], ['a', [98]]]), 'content': 'x', 'tokens': [1, 2]}
        kind = random.choice(['value', 'body', 'http', 'chunked'])
        if kind == 'value':
            body = self.damaged_value(body, random)
        data = json.dumps(body).encode()
        if kind == 'body':
            data = self.damaged_bytes(data, random)
        head = f'POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n'.encode()
        if kind == 'chunked':
            cut = random.randrange(len(data))
            sizes = random.choice(['%x', '%X', '%x', '-%x', '%xg', '%x;a=b'])
            chunks = b''.join((sizes % len(part)).encode() + b'\r\n' + part + b'\r\n' for part in (data[:cut], data[cut:]) if part)
            return head + b'Transfer-Encoding: chunked\r\n\r\n' + chunks + b'0\r\n\r\n', '-' not in sizes and 'g' not in sizes
        whole = head + b'Content-Length: %d\r\n\r\n' % len(data) + data
        return (self.damaged_bytes(whole, random), False) if kind == 'http' else (whole, True)

    def answer_to(self, data, whole):
        """All that comes. What is not whole may wait for its rest, so it is ended, which ends the connection."""
        with self.server.socket() as connection:
            received = b''
            try:
                connection.sendall(data)
                if not whole:
                    connection.shutdown(1)
                while piece := connection.recv(65536):
                    received += piece
            except ConnectionError:
                pass
        return received

    def memory_kib(self):
        status = pathlib.Path(f'/proc/{self.server.process.pid}/status').read_text()
        return int(status.split('VmRSS:')[1].split()[0])

    def test_each_mutated_request_is_answered_in_its_form(self):
        seed, before = int(os.environ.get('YAMATA_SEED', 57)), self.memory_kib()
        for i in range(MUTATIONS):
            chance = random.Random(f'{seed} {i}')
            data, whole = self.request(chance)
            with self.subTest(i=i, seed=seed):
                received = self.answer_to(data, whole)
                if not received and not whole:
                    continue
                status = int(received.split()[1])
                self.assertTrue(status in (200, 204) or 400 <= status < 500 or status == 501, received[:300])
                if status >= 400 and b'application/json' in received.partition(b'\r\n\r\n')[0] and not data.startswith(b'HEAD'):
                    self.assertIn('message', json.loads(received.rpartition(b'\r\n\r\n')[2])['error'])
        self.assertIsNone(self.server.process.poll())
        self.wait_until(self.slots_idle)
        self.assertEqual(self.server.ask('GET', '/metrics').status, 200)
        self.assertLess(self.memory_kib(), before + (16 << 10))


if __name__ == '__main__':
    scene.main(sys.argv[0])
