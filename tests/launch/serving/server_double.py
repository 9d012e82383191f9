#!/usr/bin/env python3
"""A server that behaves as launch/serve towards its clients, without a model: for tests of the chat page and of launch/chat. Its answer
depends on the first word of the last message (ANSWERS, Handler.do_POST and stream); else it repeats the message.

Started as a program, it serves until Ctrl-C: server_double.py [PORT [KEY]]"""
import http.server
import json
import pathlib
import sys
import threading
import time

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / 'launch' / 'python'))
from serving import page

HOSTILE = '''<script>window.hurt = 1</script> <img src="x" onerror="window.hurt = 2">

![a picture](http://127.0.0.1:9/picture.png) [bad](javascript:window.hurt=3) [data](data:text/html,<script>alert(1)</script>)
[good](https://example.org/a_b?c=d) <a href="javascript:alert(4)">x</a> https://example.org/(x). &lt;b&gt; &amp;

<style>body { display: none }</style>
<iframe src="https://example.org"></iframe>
''' + '*' * 3000 + '[' * 3000 + '\n\n' + '> ' * 500 + 'deep\n\n' + '\n'.join(' ' * i + '- item' for i in range(100))
HOSTILE += '\n\u202eright to left\u0000'
MARKDOWN = '''# Rainbows

A *rainbow* is an **arc of light**, not a thing: ***nobody*** can reach it. It is ~~made of glass~~ seen at `42°` from the
point opposite the sun; see [the article](https://en.wikipedia.org/wiki/Rainbow).

## How it comes about

1. Light enters a drop and is *refracted*.
2. It is reflected at the back of the drop:
   - red leaves at 42°,
   - violet at 40°.
3. It leaves the drop.

> The order of colours is always the same,
> from red outside to violet inside.

```python
def angle(colour: str) -> float:
    """Degrees from the point opposite the sun."""
    return {"red": 42.4, "violet": 40.6}[colour]  # a comment that is long enough to be wider than a phone's screen
```

| colour | wavelength | angle |
|---|:-:|--:|
| red | 700 nm | 42.4° |
| violet | 400 nm | 40.6° |

---

That is all; snake_case_words and 2 * 3 * 4 stay as they are.
'''
ANSWERS = {'nothing': '', 'hostile': HOSTILE, 'markdown': MARKDOWN, 'long': 'All work and no play makes a dull machine.\n\n' * 1500,
           'wide': ('All work and no play makes a dull machine. ' * 20 + '\n\n') * 50}
RANKS = [{'rank': 0, 'host': 'kitchen', 'role': 'head', 'layers': '0-9', 'share': 1, 'device': 'cpu'},
         {'rank': 1, 'host': 'attic', 'role': 'stage', 'layers': '10-17', 'share': 1, 'device': 'cpu'},
         {'rank': 2, 'host': 'cellar', 'role': 'stage', 'layers': '18-29', 'share': 1, 'device': 'cuda:0'},
         {'rank': 3, 'host': 'old-laptop', 'role': 'drafter', 'layers': '', 'share': 1, 'device': 'cpu'}]
PROPS = {'model_alias': 'SmolLM2-135M-Instruct', 'total_slots': 1, 'layout': 'pipeline of 3 stages, 1 drafter', 'ranks': RANKS,
         'default_generation_settings': {'n_ctx': 2048, 'params': {'temperature': 0.8}}}


class Double(http.server.ThreadingHTTPServer):
    """`bodies`: the chat requests that came; `left`: how many clients went away before the end of an answer. `go_on`: an Event; while it is
    cleared, the answers to "slow" wait after their first words. `loaded`: the share of the model; below 1 it
    loads. `looks`: how often /health was asked. `props`: what /props answers. `metrics`: more lines of /metrics.
    `response`: which one its slot makes. `pause_s`: seconds between two words."""
    daemon_threads = True

    def __init__(self, port=0, key=None):
        super().__init__(('127.0.0.1', port), Handler)
        self.key, self.bodies, self.left, self.loaded, self.pause_s = key, [], 0, 1.0, 0
        self.go_on, self.busy, self.tokens, self.growing = threading.Event(), 0, 0, 0
        self.went, self.looks, self.props, self.response = threading.Semaphore(0), 0, PROPS, 'chatcmpl-1'
        self.metrics = ''
        self.url = f'http://127.0.0.1:{self.server_address[1]}'

    def __enter__(self):
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.go_on.set()
        self.shutdown()
        self.server_close()

    def handle_error(self, *_):
        """Clients may go away at any time."""


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        """Nothing."""

    def send(self, code, body, headers=None):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(code)
        for name, value in ({'content-type': 'application/json'} | (headers or {})).items():
            self.send_header(name, value)
        self.send_header('content-length', str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def refuse(self, code, message, name=None):
        self.send(code, {'error': {'message': message, 'type': 'invalid_request_error', 'param': None, 'code': name}})

    def allowed(self):
        if self.server.key and self.headers.get('authorization') != f'Bearer {self.server.key}':
            self.refuse(401, 'invalid API key', 'invalid_api_key')
            return False
        return True

    def do_GET(self):
        path = self.path.removeprefix('/v1')
        if path == '/':
            its = page.Page()
            return self.send(200, its.data, {'content-type': 'text/html; charset=utf-8', 'content-security-policy': its.policy})
        if path == '/health':
            share, self.server.looks = self.server.loaded, self.server.looks + 1
            return self.send(200, {'status': 'ok'}) if share >= 1 else self.send(503, {'status': 'loading', 'percent': round(100 * share)})
        if not self.allowed():
            return None
        if path == '/metrics':
            return self.send(200, self.metrics().encode(), {'content-type': 'text/plain; version=0.0.4'})
        known = {'/props': self.server.props, '/models': {'object': 'list', 'data': [{'id': PROPS['model_alias'], 'object': 'model'}]},
                 '/slots': [{'id': 0, 'is_processing': self.server.busy > 0, 'response': self.server.response,
                             'n_prompt_tokens': 12, 'n_prompt_computed': 5, 'next_token': [{'n_decoded': self.server.growing}]}]}
        return self.send(200, known[path]) if path in known else self.refuse(404, f'there is no {path}')

    def metrics(self):
        tokens = self.server.tokens + self.server.growing
        return (f'# TYPE yamata_completion_tokens_total counter\nyamata_completion_tokens_total {tokens}\n'
                f'yamata_guesses_total {2 * tokens}\nyamata_guesses_accepted_total {tokens}\n'
                f'yamata_runs_in_flight {3 if self.server.busy else 0}\n{self.server.metrics}')

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers['content-length'])))
        if not self.allowed():
            return
        self.server.bodies.append(body)
        asked = body['messages'][-1]['content']
        special = {'refuse': (400, 'something is wrong with this request', 'bad_value'),
                   'name': (400, 'max_tokens is too large: «x»', 'bad_value'), 'full': (429, 'the queue is full', None),
                   'overflow': (400, "This model's maximum context length is 2048 tokens", 'context_length_exceeded')}
        first = asked.split()[0] if asked.split() else ''
        if first in special:
            return self.refuse(*special[first])
        self.server.busy += 1
        try:
            self.stream(first, asked)
        except (BrokenPipeError, ConnectionResetError):
            self.server.left += 1
            self.server.went.release()
        finally:
            self.server.busy -= 1
            self.server.tokens += self.server.growing
            self.server.growing = 0

    def event(self, delta, finish=None, **more):
        choices = [] if delta is None else [{'index': 0, 'delta': delta, 'finish_reason': finish}]
        self.line('data: ' + json.dumps({'id': 'chatcmpl-1', 'object': 'chat.completion.chunk', 'created': 1, 'choices': choices, **more}))

    def line(self, text):
        self.wfile.write(f'{text}\n\n'.encode())
        self.wfile.flush()

    def words(self, text, name='content'):
        """Sends a text in pieces of a few letters."""
        size = 6 if len(text) < 5000 else 400
        for at in range(0, len(text), size):
            self.event({name: text[at:at + size]})
            self.server.growing += 1
            if self.server.pause_s:
                time.sleep(self.server.pause_s)

    def stream(self, first, asked):
        self.send_response(200)
        self.send_header('content-type', 'text/event-stream')
        self.end_headers()
        self.line(': ping')
        if first == 'delay':
            self.server.go_on.wait()
        self.event({'role': 'assistant', 'content': ''})
        if first == 'read':  # a prompt that is being computed
            while not self.server.go_on.wait(.05):
                self.line(': ping')
        if first == 'think':
            self.words('First I look at the question. Then I *weigh* it.', 'reasoning_content')
        if first == 'slow':
            self.words('These words come at once. ')
            while not self.server.go_on.wait(.05):
                self.line(': ping')
        if first == 'halves':
            self.words(MARKDOWN[:400])
            self.server.go_on.wait()
            self.words(MARKDOWN[400:])
        if first == 'cut':
            return self.words('An answer that is cut')
        if first == 'fail':
            self.words('Half an answer')
            return self.line('data: ' + json.dumps({'error': {'message': 'machine cellar is lost', 'type': 'server_error'}}))
        self.words(ANSWERS.get(first, f'You said: {asked}') if first != 'halves' else '')
        timings = {'prompt_n': 12, 'prompt_ms': 80.0, 'predicted_n': 40, 'predicted_ms': 2000.0, 'predicted_per_second': 20.0,
                   'draft_n': 50, 'draft_n_accepted': 30}
        self.event({}, 'length' if first == 'limit' else 'stop', timings=timings)
        self.event(None, usage={'prompt_tokens': 12, 'completion_tokens': 40, 'total_tokens': 52})
        self.line('data: [DONE]')


if __name__ == '__main__':
    server = Double(int(sys.argv[1]) if sys.argv[1:] else 0, sys.argv[2] if sys.argv[2:] else None)
    server.pause_s = .05
    server.go_on.set()
    print(server.url, flush=True)
    server.serve_forever()
