"""Measures an engine under load: levels of requests at the same time, or requests that arrive at random."""
import collections
import dataclasses
import datetime
import hashlib
import json
import math
import os
import shlex
import statistics

from common.files import write_whole
from common.problem import Problem

from . import answers, commands, workload
from .engine_process import EngineFailed, EngineProcess
from .summary import LOAD


@dataclasses.dataclass
class Text:
    """A request and its answer, in seconds from the start of the level. `begin_s`: when it was sent or, if requests arrive by themselves,
    when it was due. `gaps_s`: between tokens."""
    begin_s: float
    first_s: float | None = None
    end_s: float | None = None
    ids: list = dataclasses.field(default_factory=list)
    gaps_s: list = dataclasses.field(default_factory=list)

    @property
    def first_token_s(self):
        return self.first_s - self.begin_s


def take(text, message, at_s):
    """Adds a message to its text; whether that has ended. Raises EngineFailed."""
    kind = message['is']
    if kind == 'text':
        text.first_s = at_s if text.first_s is None else text.first_s
        text.ids += message['ids']
    elif kind == 'done' and message.get('reason') == 'length':
        times = message['seconds']['tokens']
        text.end_s, text.gaps_s = at_s, [later - earlier for earlier, later in zip(times, times[1:])]
    elif kind != 'prompt':
        raise EngineFailed('a text ended early: ' + str(message.get('message') or message.get('reason')))
    return text.end_s is not None


def answer_all(engine, messages, at_once, deadline_s, due_s=None):
    """Sends the requests in their order, as soon as fewer than `at_once` of them are open, and not before they are due; returns the Text of
    each. `due_s`: seconds from now. Raises EngineFailed."""
    begin, texts, waiting, open_texts = engine.now(), [], collections.deque(messages), {}
    while waiting or open_texts:
        if (now_s := engine.now() - begin) >= deadline_s:
            raise EngineFailed(f'killed at its deadline of {deadline_s:g} s')
        due = due_s[len(texts)] if waiting and due_s else 0.0
        if waiting and len(open_texts) < at_once and due <= now_s:
            texts.append(Text(due if due_s else now_s))
            open_texts[engine.submit(**waiting.popleft())] = texts[-1]
            continue
        arrives = waiting and len(open_texts) < at_once
        got = engine.next(begin + (min(due, deadline_s) if arrives else deadline_s))
        if got and (text := open_texts.get(got[1].get('id'))) and take(text, got[1], got[0] - begin):
            del open_texts[got[1]['id']]
    return texts


def percentile(values, share):
    """The least value that is not less than this share of the values; None: there are none."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)] if values else None


def digest(value):
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:16]


def figures(texts, alone):
    """What a row says of the texts of a level. `alone`: the ids of each text when nothing else was generated."""
    first, gaps = [text.first_token_s for text in texts], [gap for text in texts for gap in text.gaps_s]
    tokens, seconds = sum(len(text.ids) for text in texts), max(text.end_s for text in texts)
    return {'requests': len(texts), 'generated_tokens': tokens, 'decode_tokens_per_s': tokens / seconds,
            'first_token_p50_s': percentile(first, .5), 'first_token_p95_s': percentile(first, .95),
            'itl_mean_s': statistics.fmean(gaps) if gaps else None,
            **{f'itl_p{round(100 * share)}_s': percentile(gaps, share) for share in (.5, .95, .99)},
            'different_texts': sum(text.ids != ids for text, ids in zip(texts, alone))}


class Session:
    """An engine that is measured. `runs`: the levels of one configuration and repeat that are still to be measured."""

    def __init__(self, runs, folder, machine):
        self.left, self.run, self.machine, self.folder = list(runs), runs[0], machine, folder
        self.deadline_s, self.workload = runs[0].deadline_s, runs[0].workload
        self.began = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec='seconds')
        self.load_before = os.getloadavg()[0]
        self.command = commands.in_folder(self.run.command, folder)

    def measure(self, tell):
        """Calls tell(run, row) for each level, until one fails; returns the levels that are left."""
        write_whole(self.file(self.run.id, 'txt'), self.run.prompt.text.encode())
        try:
            with EngineProcess(self.command, self.file(self.run.id, 'err')) as engine:
                self.prepare(engine)
                while self.left:
                    row = self.level(engine, self.left[0])
                    tell(self.left.pop(0), row)
        except EngineFailed as error:
            failed = self.left.pop(0)
            tell(failed, self.row(failed, str(error), 0.0, {}))
        return self.left

    def file(self, name, ending):
        return self.folder / 'runs' / f'{name}.{ending}'

    def prepare(self, engine):
        """Loads the model, and reads the texts of the prompts."""
        self.ready = engine.wait('ready', self.deadline_s)
        self.ids = engine.tokenize(self.run.prompt.text, False, self.deadline_s)
        self.begin = engine.tokenize('', True, self.deadline_s)
        longest = max(self.workload.prompt_tokens) + max(self.workload.answer_tokens)
        if longest > self.ready['context'] + 1:  # the last token is not computed
            raise EngineFailed(f'the longest request has {longest} tokens, the context {self.ready["context"]}; write flags = ["-c", '
                               f'"{longest}"]')
        answer_all(engine, self.messages('the first request is slower')[:1], 1, self.deadline_s)
        self.pauses = engine.wait('alive', self.deadline_s).get('pauses', 0)

    def messages(self, level):
        """The requests of a level. Raises EngineFailed."""
        columns = self.run.columns
        try:
            requests = workload.requests_of(self.workload, self.ids, self.begin, columns['seed'], level)
        except Problem as problem:
            raise EngineFailed(str(problem)) from None
        return [{'prompt': request.prompt, 'max_tokens': request.answer, 'cache': False, 'token_times': True,
                 'sampling': {'temperature': columns['temperature'], 'seed': request.seed, 'ignore_eos': True}} for request in requests]

    def alone(self, engine, run, messages, texts):
        """The ids of the requests' texts when nothing else is generated. Another engine may have written them to a file."""
        row = run.columns | {'command': shlex.join(self.command)}
        level = [run.columns[key] for key in LOAD]
        path = self.file(f'alone-{digest([answers.text_group(row), run.prompt.text, self.workload.meaning, level])}', 'json')
        if path.exists():
            return json.loads(path.read_text())
        found = [text.ids for text in (texts if run.columns['concurrency'] == 1 else answer_all(engine, messages, 1, self.deadline_s))]
        write_whole(path, json.dumps(found).encode())
        return found

    def level(self, engine, run):
        """The row of a level. Raises EngineFailed."""
        rate, columns = run.columns['rate'], run.columns
        messages = self.messages(f'{columns["concurrency"]} {rate}')
        due_s = workload.arrivals(rate, len(messages), columns['seed'], columns['repeat']) if rate else None
        texts = answer_all(engine, messages, workload.MAX_AT_ONCE if rate else columns['concurrency'], self.deadline_s, due_s)
        before, self.pauses = self.pauses, engine.wait('alive', self.deadline_s).get('pauses', 0)
        details = {'ready': {key: self.ready.get(key) for key in ('slots', 'cache_tokens', 'context', 'layout')},
                   'texts': [dataclasses.asdict(text) for text in texts]}
        write_whole(self.file(run.id, 'json'), json.dumps(details).encode())
        its = figures(texts, self.alone(engine, run, messages, texts)) | {
            'prompt_tokens': sum(len(message['prompt']) for message in messages), 'pauses': self.pauses - before,
            'slots': self.ready.get('slots'), 'cache_tokens': self.ready.get('cache_tokens'), 'ranks': len(self.ready.get('ranks', []))}
        return self.row(run, '', max(text.end_s for text in texts), its)

    def row(self, run, error, wall_s, its):
        if not run.columns['nodes'] and its.get('ranks'):
            run.columns['nodes'] = its['ranks']
        same = '' if error else 'no' if its['different_texts'] else 'yes'
        return {'run': run.id, **run.columns, 'error': error, 'same_text': same, 'wall_s': f'{wall_s:.3f}', **its,
                **self.machine.columns, 'load_before': f'{self.load_before:.2f}', 'date': self.began, 'fingerprint': run.fingerprint,
                'command': shlex.join(self.command)}


def measure(runs, folder, machine, tell):
    """Calls tell(run, row) for each of the runs, which are levels of one engine. After a failure, another engine measures the rest."""
    while runs:
        runs = Session(runs, folder, machine).measure(tell)
