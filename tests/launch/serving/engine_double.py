#!/usr/bin/env python3
"""Speaks the engine's protocol (docs/serving.md) without a model, for tests of what surrounds it. A token is a byte. The text that
answers a prompt is what stands in it between the last «say» and «end», or else words that the prompt, the sampling and the seed
determine. «wait» in a prompt: nothing comes until it is cancelled; «die»: the process ends; «killed»: it says what mpirun's guard says of
a killed rank, and waits; «named»: it ends as mpirun does; «drop»: the engine cancels it; «slow»: a token every 20 ms; «paused»: it was
paused once. ENGINE_SLOTS, ENGINE_CONTEXT and ENGINE_TEMPLATE say what it has; ENGINE_LOADS=wait: it loads until its input ends, hang: for
ever; ENGINE_IGNORES_SIGTERM; ENGINE_ALIVE_S: how often it says that it lives. Requests are counted from 1: those of ENGINE_PAUSES are
paused and get another text than they should, at that of ENGINE_DIES the process ends. «lost 5 b»: the process ends behind so many tokens
of the answer if the host b takes part, and says whose loss it is; «gone 5»: it just ends there, unless it goes on with a kept text;
«late 5»: the same, but it says more after its loss; «shot 2»: in the first two of its starts, the process is killed.
ENGINE_HOSTS: its hosts, a rank on each, with two layers; ENGINE_STARTS: a file for a line of each start, with its hosts and flags, and of
each kept text; ENGINE_NEEDS: so many hosts are needed; ENGINE_FAILS: a host that is lost
during the start; ENGINE_BROKEN: while there is this file, each start fails."""
import hashlib
import json
import os
import queue
import random
import re
import signal
import sys
import threading

SLOTS, CONTEXT = int(os.environ.get('ENGINE_SLOTS', 1)), int(os.environ.get('ENGINE_CONTEXT', 4096))
TEMPLATE = os.environ.get('ENGINE_TEMPLATE', "{% for m in messages %}<{{ m.role }}>{{ m.content }}</{{ m.role }}>{% endfor %}<assistant>")
HOSTS = os.environ.get('ENGINE_HOSTS', 'here').split(',')
ALIVE_S = float(os.environ.get('ENGINE_ALIVE_S', 0.5))
PAUSES, DIES = os.environ.get('ENGINE_PAUSES', '').split(), int(os.environ.get('ENGINE_DIES', 0))
WORDS = 'sea sky stone the a of grüße 你好 king was in tower old red'.split()
lock = threading.Lock()
cells, pauses = {}, []  # of the texts that are being generated, by id; a text for each pause


def tell(**message):
    with lock:
        sys.stdout.write(json.dumps({'is': message.pop('kind'), **message}) + '\n')
        sys.stdout.flush()


def tell_alive():
    tell(kind='alive', progress=0, texts=len(cells), cells=sum(list(cells.values())), pauses=len(pauses))


def lost(host, why):
    tell(kind='lost', rank=HOSTS.index(host), host=host, why=why)
    os._exit(3)


def record(**what):
    if starts := os.environ.get('ENGINE_STARTS'):
        with open(starts, 'a') as file:
            file.write(json.dumps(what) + '\n')


def starts():
    return sum('"hosts"' in line for line in open(os.environ['ENGINE_STARTS']))


def text_for(prompt, sampling, count):
    said = re.findall('«say»(.*?)«end»', prompt, re.S)
    if said:
        return said[-1].encode()
    biases = sampling.get('logit_bias', {})
    forced = [int(token) for token, bias in biases.items() if bias >= 100]
    if forced:
        return bytes(forced[:1]) * count
    key = [prompt] + ([sampling['seed'], sampling['temperature']] if sampling.get('temperature') else [])
    draw = random.Random(hashlib.sha256(json.dumps(key).encode()).digest())
    text = ' '.join(draw.choice(WORDS) for _ in range(count // 2 + 2))
    return text.encode()[:count]


class Engine:
    def __init__(self):
        self.cancelled, self.work, self.known = set(), queue.Queue(), []
        self.submitted = 0

    def cached(self, data, wanted):
        best = max((len(os.path.commonprefix([data, old])) for old in self.known), default=0) if wanted else 0
        self.known = [*self.known[-7:], data]
        return min(best, len(data) - 1)

    def logprob(self, token, tops):
        top = [{'id': other % 256, 'bytes': [other % 256], 'logprob': -0.5 - i} for i, other in enumerate(range(token, token + tops))]
        return {'id': token, 'bytes': [token], 'logprob': -0.5, 'top': top}

    def refused(self, request, data):
        if len(data) >= CONTEXT:
            tell(kind='refused', id=request['id'], code='context_length_exceeded', param='prompt',
                 message=f"This model's maximum context length is {CONTEXT} tokens, the prompt has {len(data)}")
        elif 'not' in json.dumps(request.get('schema', '')) or '"strange"' in json.dumps(request.get('schema', '')):
            tell(kind='refused', id=request['id'], code='bad_value', param='schema', message="the keyword 'not' is not supported")
        else:
            return False
        return True

    def end_at(self, number, prompt, shown, kept):
        """Ends the process if this is where the prompt wants that."""
        if (found := re.search('«late ([0-9]+)»', prompt)) and int(found[1]) == shown and not kept:
            tell(kind='lost', why='is silent')
            tell(kind='text', id=number, at=shown + 5, text='stale', ids=[1] * 5)
            tell(kind='done', id=number, reason='stop', usage={})
            threading.Event().wait()
        for tokens, host in re.findall('«lost ([0-9]+) ([^»]+)»', prompt):
            if int(tokens) == shown and host in HOSTS:
                lost(host, 'is silent')
        if (found := re.search('«gone ([0-9]+)»', prompt)) and int(found[1]) == shown and not kept:
            os._exit(3)

    def answer(self, request):
        number, prompt = request['id'], request['prompt']
        if isinstance(prompt, list) and any(token > 255 for token in prompt):
            return tell(kind='refused', id=number, code='bad_value', param='prompt', message='there is no such token')
        data = bytes(prompt) if isinstance(prompt, list) else prompt.encode()
        prompt = data.decode(errors='replace')
        if '«die»' in prompt:
            os._exit(3)
        if (found := re.search('«shot ([0-9]+)»', prompt)) and starts() <= int(found[1]):
            os.kill(os.getpid(), signal.SIGKILL)
        if '«killed»' in prompt:
            print('yamata: rank 2 (attic) was killed by signal 9 (Killed)', file=sys.stderr, flush=True)
            return
        if '«named»' in prompt:
            tell(kind='done', id=number, reason='cancelled', usage={})
            print('mpirun noticed that process rank 1 with PID 7 on node attic exited on signal 9 (Killed).', file=sys.stderr)
            os._exit(137)
        if '«drop»' in prompt:
            return tell(kind='done', id=number, reason='cancelled', usage={})
        if self.refused(request, data):
            return
        cached = self.cached(data, request.get('cache', True))
        tell(kind='prompt', id=number, tokens=len(data), cached=cached, computed=len(data) - cached)
        pauses.extend([number] if '«paused»' in prompt or request['wrong'] else [])
        room = CONTEXT - len(data)
        text = text_for(prompt + '!' * request['wrong'], request['sampling'], min(request.get('max_tokens', room), room))
        cells[number] = len(data)
        full = len(text) >= room and request.get('max_tokens', CONTEXT) > room
        reason, sent = self.send(request, text, '«slow»' in prompt, '«wait»' in prompt, prompt)
        reason = 'context' if full and reason == 'length' else reason
        del cells[number]
        times = {'seconds': {'tokens': [.01 * i for i in range(sent)]}} if request.get('token_times') else {}
        usage = {'prompt_tokens': len(data), 'cached_tokens': cached, 'completion_tokens': sent}
        tell(kind='done', id=number, reason=reason, seed=request['sampling'].get('seed'), speculation={'guessed': 4, 'accepted': 2},
             usage=usage, **times)

    def send(self, request, text, slow, wait, prompt):
        """(reason, tokens)."""
        most, number = request.get('max_tokens', CONTEXT), request['id']
        said = b'\xc2\xabsay\xc2\xbb' in json.dumps(request['prompt'], ensure_ascii=False).encode()
        reason = 'length' if len(text) >= most else 'stop' if said else 'length'
        text, pending, ids, shown, stops = text[:most], b'', [], 0, [stop.encode() for stop in request.get('stop', [])]
        ends = [(at, stop) for stop in stops if (at := text.find(stop)) >= 0]
        last = min(ends)[0] if ends else len(text)
        tokens = last + len(min(ends)[1]) if ends else len(text)
        kept = bytes(request.get('kept', []))
        shown = len(kept)
        if text[:shown] != kept:
            tell(kind='error', id=number, message='kept is not what was sent')
            return 'error', shown
        pending = kept[len(kept.decode(errors='ignore').encode()):]
        while shown < last or wait:
            self.end_at(number, prompt, shown, kept)
            if number in self.cancelled:
                return 'cancelled', shown
            if slow or wait:
                threading.Event().wait(0.02)
            if wait:
                continue
            pending, ids, shown = pending + text[shown:shown + 1], [*ids, text[shown]], shown + 1
            try:
                piece = pending.decode()
            except UnicodeDecodeError:
                if shown < last:
                    continue
                piece = pending.decode(errors='replace')
            more = {'logprobs': [self.logprob(token, request['logprobs']) for token in ids]} if 'logprobs' in request else {}
            tell(kind='text', id=number, at=shown, text=piece, ids=ids, **more)
            pending, ids = b'', []
        return ('stop' if ends else reason), tokens

    def serve(self):
        while (request := self.work.get()) is not None:
            self.answer(request)

    def take(self, line):
        """A line of input; whether more may come."""
        try:
            message = json.loads(line)
            kind = message.get('do')
        except (ValueError, AttributeError):
            tell(kind='error', message='no JSON object')
            return True
        if kind == 'submit':
            self.submitted += 1
            if 'kept' in message:
                record(kept=len(message['kept']))
            if self.submitted == DIES:
                os._exit(3)
            self.work.put(message | {'wrong': str(self.submitted) in PAUSES})
        elif kind == 'cancel':
            self.cancelled.add(message['id'])
        elif kind == 'tokenize':
            tell(kind='tokenized', id=message['id'], ids=list(message['text'].encode()))
        elif kind == 'detokenize':
            bad = [token for token in message['ids'] if token > 255]
            if bad:
                tell(kind='error', id=message['id'], message=f'there is no token {bad[0]}')
            else:
                tell(kind='detokenized', id=message['id'], text=bytes(message['ids']).decode(errors='replace'))
        elif kind == 'stop':
            return False
        else:
            tell(kind='error', message=f'{kind} is not known')
        return True


def main():
    if sys.argv[1:2] != ['engine']:
        sys.exit(1)
    if '--help' in sys.argv:
        sys.exit(0)
    if '--broken' in sys.argv:
        print('yamata: the file is damaged; copy it again', file=sys.stderr)
        sys.exit(2)
    if '--porrt' in sys.argv:
        sys.exit("yamata: '--porrt' is not a flag; 'yamata engine --help' lists them")
    if 'ENGINE_IGNORES_SIGTERM' in os.environ:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    record(hosts=HOSTS, flags=sys.argv[2:])
    if len(HOSTS) < int(os.environ.get('ENGINE_NEEDS', 1)):
        print(f'yamata: rank 0 ({HOSTS[0]}) has too little memory', file=sys.stderr)
        sys.exit(1)
    for rank, host in enumerate(HOSTS):
        tell(kind='joined', rank=rank, host=host)
    tell(kind='loading', share=0.5)
    if os.path.exists(os.environ.get('ENGINE_BROKEN', '')):
        os._exit(3)
    if os.environ.get('ENGINE_FAILS') in HOSTS:
        lost(os.environ['ENGINE_FAILS'], 'is silent')
    if os.environ.get('ENGINE_LOADS') == 'wait':
        sys.stdin.read()
        sys.exit(0)
    if os.environ.get('ENGINE_LOADS') == 'hang':
        threading.Event().wait()
    ranks = [{'rank': rank, 'host': host, 'role': 'stage' if rank else 'head', 'layers': f'{2 * rank}-{2 * rank + 1}', 'share': 1}
             for rank, host in enumerate(HOSTS)]
    tell(kind='ready', context=CONTEXT, slots=SLOTS, cache_tokens=SLOTS * CONTEXT, template=TEMPLATE, bos='<s>', eos='</s>', vocab=256,
         layout='all layers here', ranks=ranks)
    engine = Engine()
    threads = [threading.Thread(target=engine.serve) for _ in range(SLOTS)]
    for thread in threads:
        thread.start()
    stopped = False
    for line in sys.stdin:
        if not engine.take(line):
            stopped = True
            break
    if not stopped:
        os._exit(0)
    for _ in threads:
        engine.work.put(None)
    for thread in threads:
        thread.join()
    os._exit(0)


if __name__ == '__main__':
    threading.Thread(target=lambda: [tell_alive() for _ in iter(lambda: threading.Event().wait(ALIVE_S), True)], daemon=True).start()
    main()
