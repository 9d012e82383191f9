"""The main part of launch/batch: texts from a job that survives lost machines, without a server."""
import asyncio
import json
import os
import signal
import sys

from common import files
from common.files import reading
from common.problem import Problem

from . import admission, job, plans, protocol, start_checks
from .http_request import HttpError
from .metrics import Metrics
from .terminal import Terminal

INTERRUPTED, REFUSED, LOST = 130, 2, 3


def is_prompt(value):
    return isinstance(value, str) or isinstance(value, list) and all(type(token) is int for token in value)


def prompts_of(flags):
    """[{"prompt": …}], with the other fields of a line. Raises Problem."""
    if flags.file is None:
        return [{'prompt': flags.prompt}]
    start_checks.require_file(flags.file, 'a file with a prompt')
    with reading(flags.file, 'check its permissions', 1):
        text = flags.file.read_text(errors='surrogateescape')
    if flags.file.suffix != '.jsonl':
        return [{'prompt': text}]
    prompts = []
    for number, line in enumerate(text.splitlines(), 1):
        try:
            value = json.loads(line) if line.strip() else None
        except ValueError:
            value = {}
        if value is None:
            continue
        if not isinstance(value, dict) or not is_prompt(value.get('prompt')):
            raise Problem(f'{flags.file}, line {number}: no JSON object with a "prompt", a text or token ids', REFUSED)
        prompts.append(value)
    if not prompts:
        raise Problem(f'{flags.file} has no prompt', REFUSED)
    return prompts


class Text:
    """A text that grows. `result`: what the JSON says of it, when it is complete."""

    def __init__(self, asked, generation, inbox):
        self.asked, self.generation, self.inbox = asked, generation, inbox
        self.text, self.ids, self.result, self.recovered = '', [], None, False

    async def next_piece(self):
        """More of the text; None: it is complete. Raises HttpError."""
        await self.inbox.wait()
        _, message = self.inbox.take()
        if message['is'] == 'text':
            self.text, self.ids = self.text + message['text'], self.ids + message['ids']
            return message['text']
        if message['is'] != 'done':
            if message['is'] in protocol.ENDS:
                raise HttpError(500, message.get('why') or message.get('message') or 'the engine failed')
            self.recovered |= message['is'] == 'recovering'
            return ''
        usage, its = protocol.usage_of(message), self.generation
        # an engine does not know how long the text took before it
        seconds = its.end - (its.first or its.end) if self.recovered else (message.get('seconds') or {}).get('text')
        more = max(usage['completion'] - 1, 0)
        others = {name: value for name, value in self.asked.items() if name != 'prompt'}
        self.result = others | {
            'text': self.text, 'token_ids': self.ids, 'finish_reason': message['reason'], 'prompt_tokens': usage['prompt'],
            'generated_tokens': usage['completion'], 'decode_tokens_per_s': more / seconds if seconds and more else None,
            'seed': message.get('seed'), 'speculation': message.get('speculation')}
        return None


class Batch:
    def __init__(self, flags, engine_words):
        self.flags, self.prompts, self.terminal = flags, prompts_of(flags), Terminal()
        start_checks.refuse_launchers(os.environ)
        start_checks.require_file(flags.model, 'a GGUF file')
        if flags.json and (flags.json.is_dir() or not flags.json.parent.is_dir()):
            raise Problem(f'--json {flags.json}: it is a folder, or in one that does not exist; choose another place')
        slots = [] if any(word.partition('=')[0] == '--slots' for word in engine_words) else ['--slots', str(min(8, len(self.prompts)))]
        self.job = job.Job(plans.plan_of(flags, ['-m', flags.model, *slots, *engine_words]), self.changed, self.terminal.say)
        metrics = Metrics()
        self.queue = admission.Queue(self.job, len(self.prompts), metrics)
        self.job.progress, self.job.idle = metrics.tokens, self.queue.idle
        self.ready, self.code = asyncio.Event(), None

    def changed(self, its):
        if its.state == 'loading':
            self.terminal.loading(its.share)
        elif its.state == 'ready':
            if not self.ready.is_set():
                self.terminal.say(f'layout: {its.ready.get("layout")}')
            self.queue.drain() if self.queue.closed else self.queue.advance()
            self.ready.set()
        elif its.state == 'lost':
            self.queue.lose(its.end_kind, its.why)

    async def run(self):
        """Returns the exit code."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self.interrupt)
        engine = loop.create_task(self.job.run())
        await asyncio.wait([engine, served := loop.create_task(self.ready.wait())], return_when=asyncio.FIRST_COMPLETED)
        if not self.ready.is_set():
            served.cancel()
            return self.code or self.start_failed(await engine)
        try:
            results = await self.texts()
        except HttpError as error:
            if self.code is None:
                self.terminal.say(f'batch: {error}')
                self.code = REFUSED
            results = None
        if results:
            self.queue.closed = True  # if it recovers just now, it ends when it is ready
            self.queue.drain()
        else:
            self.job.lose('it is over', 'ending')
        await engine
        if results:
            self.write(results)
        return self.code or 0

    def start_failed(self, code):
        if code == 1 and 'is not a flag' in self.job.last_error:
            self.terminal.say("batch: flags that are not the engine's are listed by launch/batch --help")
        if code in (1, 2) and self.job.last_error.startswith('yamata: '):
            return code
        remedy = f'launch/cluster check {self.flags.hostfile} says what is wrong' if self.flags.hostfile else 'start again'
        self.terminal.say(f'batch: the job was lost before it began ({self.job.why}); {remedy}')
        return LOST

    def interrupt(self):
        self.code = INTERRUPTED
        self.job.lose('interrupted', 'ending')

    async def texts(self):
        """The results, in order; each is printed as soon as those before it are. Raises HttpError."""
        sampling, most = {'seed': self.flags.seed}, None if self.flags.predict < 0 else self.flags.predict
        texts, results, one = [], [], len(self.prompts) == 1
        for asked in self.prompts:
            (generation,), inbox = self.queue.admit([protocol.submit(asked['prompt'], sampling, most, self.flags.stop)])
            texts.append(Text(asked, generation, inbox))
        for text in texts:
            while (piece := await text.next_piece()) is not None:
                if one:
                    self.say(piece)
            self.say('\n' if one else json.dumps(text.result, ensure_ascii=False) + '\n')
            if one and (speed := text.result['decode_tokens_per_s']):
                self.terminal.say(f'{text.result["generated_tokens"]} tokens, {speed:.1f} tokens/s')
            if text.result['finish_reason'] == 'context':
                self.terminal.say(f'batch: the context of {self.job.ready.get("context")} tokens is full; raise -c for a '
                                  'longer text, if the model was trained for one')
            results.append(text.result)
        return results

    def say(self, text):
        sys.stdout.write(text)
        sys.stdout.flush()

    def write(self, results):
        if not self.flags.json:
            return
        about = {'losses': self.job.losses, 'generations': self.job.generation, 'ranks': len(self.job.ready.get('ranks') or []),
                 'layout': self.job.ready.get('layout')}
        value = results[0] | about if len(results) == 1 else about | {'texts': results}
        files.write_whole(str(self.flags.json), json.dumps(value).encode(), 'choose another place with --json', 1)
