"""Random faults under launch/serve on emulated hosts: every text is the one that it would have been, every request ends, and nothing is
left behind."""
import json
import os
import pathlib
import random
import signal
import time

from common import places

from . import hosts as emulation
from .campaign import PATIENCE
from .served import Server, Text, name_of, processes

SIGNALS = {'kill': signal.SIGKILL, 'stop': signal.SIGSTOP}
KINDS = [f'{how} {what}' for how in SIGNALS for what in ('rank', 'guard', 'daemon', 'mpirun')] + ['cut link', 'short outage', 'lose power']
PROGRAMS = {'rank': 'yamata', 'guard': 'yamata-guard', 'daemon': 'orted'}
MOMENTS = ['prompt', 'text', 'text', 'text', 'last token', 'idle']
PROMPTS = ['Once upon a time there was a king who', 'The fox said to the wolf', 'In a village near the wood lived a poor woodcutter. ' * 12]
SAMPLINGS = [{'temperature': 0}, {'temperature': 1.6, 'top_k': 0, 'top_p': 1, 'min_p': 0, 'repeat_penalty': 1.2}]
COLUMNS = ['seed', 'hosts', 'texts', 'faults', 'losses', 'generations', 'pause_s', 'outcome']
ENDS_S = 60 * PATIENCE   # a request ends within this time, whatever happens
CLEAN_S = 15 * PATIENCE  # then nothing of lost generations is left


class Fault:
    def __init__(self, draw, hosts, wait_s):
        self.kind, self.host, self.wait_s = draw.choice(KINDS), draw.randrange(hosts), wait_s
        self.outage_s = round(draw.uniform(0.2, 2), 2)

    def describe(self):
        whom = '' if self.kind.endswith('mpirun') else f' n{self.host}'
        return self.kind + whom + (f' for {self.outage_s} s' if self.kind == 'short outage' else '')

    def strike(self, server):
        host = server.cluster.hosts[self.host]
        how, _, what = self.kind.partition(' ')
        if self.kind == 'lose power':
            set_link(host, 'down')
            host.kill()
        elif self.kind == 'cut link':
            set_link(host, 'down')
        elif self.kind == 'short outage':
            set_link(host, 'down')
            time.sleep(self.outage_s)
            set_link(host, 'up')
        else:
            for process in server.mpirun() if what == 'mpirun' else processes(host, PROGRAMS[what]):
                kill(process, SIGNALS[how])


class Scenario:
    """Everything that a seed determines. A seventh of them have no fault."""

    def __init__(self, seed):
        draw = random.Random(f'served {seed}')
        self.seed, self.hosts = seed, draw.choice([3, 4])
        self.moment, self.share = draw.choice(MOMENTS), draw.uniform(0.05, 0.9)
        count = 0 if draw.random() < 1 / 7 else 2 if draw.random() < 0.3 else 1
        self.faults = [Fault(draw, self.hosts, draw.uniform(0.1, 3) if i else 0) for i in range(count)]
        self.texts = []
        for _ in range(draw.randint(1, 4)):
            body = draw.choice(SAMPLINGS) | {'prompt': draw.choice(PROMPTS), 'seed': draw.randrange(3), 'max_tokens': 160,
                                             'ignore_eos': True, 'cache_prompt': draw.random() < .5, 'stream': draw.random() < .8}
            self.texts.append((body, draw.randint(1, 30) if body['stream'] and draw.random() < .2 else None))
        self.guesses = draw.random() < .5

    def describe(self):
        what = ', then '.join(fault.describe() for fault in self.faults) or 'no fault'
        return f'seed {self.seed}: {self.hosts} hosts, {len(self.texts)} texts, {what}, {self.moment}'


def kill(process, number):
    try:
        os.kill(process, number)
    except ProcessLookupError:
        pass


def set_link(host, state):
    emulation.run(['ip', '-n', host.namespace, 'link', 'set', 'eth0', state])


class Campaign:
    def __init__(self):
        self.model, self.draft = (str(places.ROOT / 'models' / f'tales-{name}-q8_0.gguf') for name in ('target', 'draft'))
        self.known = {}  # the undisturbed texts

    def play(self, scenario):
        """A row of the table."""
        row = {'seed': scenario.seed, 'hosts': scenario.hosts, 'texts': len(scenario.texts),
               'faults': '; '.join(fault.describe() for fault in scenario.faults)}
        with emulation.Cluster(scenario.hosts, delay=[0.1], rate=[1000]) as cluster:
            server = Server(cluster, '-m', self.model, '-t', '1', '-c', '1024', '--layer-split',
                            ','.join(['1'] * (scenario.hosts - scenario.guesses)) + '/1' * scenario.guesses,
                            *(['-md', self.draft] if scenario.guesses else []))
            try:
                row |= self.watch(scenario, server)
                row['outcome'] = row['outcome'] or self.remains(server, cluster) or 'right'
            finally:
                if server.process.poll() is None:
                    server.process.kill()
        return row

    def watch(self, scenario, server):
        if not server.wait_until_it_serves():
            return {'outcome': f'did not start: {server.said[-3:]}'}
        self.learn(scenario, server)
        texts = [Text(server, *its) for its in scenario.texts]
        self.wait_for(scenario, texts)
        for fault in scenario.faults:
            time.sleep(fault.wait_s)
            fault.strike(server)
        outcome = self.wrong_texts(scenario, texts) or self.wrong_afterwards(scenario, server)
        health = server.health()
        if not scenario.faults and health['losses']:
            outcome = outcome or f'an alarm without a fault: {health["last_loss"]["why"]}'
        return {'losses': health['losses'], 'generations': health['generation'], 'outcome': outcome,
                'pause_s': round(max(text.longest_gap_s() for text in texts), 1)}

    def learn(self, scenario, server):
        """The undisturbed texts."""
        for body, _ in scenario.texts:
            key = self.key(body)
            if key not in self.known:
                self.known[key] = Text(server, body).text()

    def key(self, body):
        return json.dumps([body[name] for name in ('prompt', 'temperature', 'seed')])

    def wait_for(self, scenario, texts):
        """Until the moment of the first fault."""
        pieces = {'prompt': 0, 'last token': 10**9, 'idle': 10**9}.get(scenario.moment, scenario.share * 30)
        end = time.monotonic() + ENDS_S
        streams = [text for text in texts if text.body['stream']] or texts
        while time.monotonic() < end and any(text.is_alive() and len(text.pieces) < pieces for text in streams):
            time.sleep(0.002)
            if scenario.moment == 'last token' and any(len(text.text_so_far()) > 0.97 * len(self.known[self.key(text.body)])
                                                       for text in streams):
                return

    def wrong_texts(self, scenario, texts):
        end = time.monotonic() + ENDS_S
        for text, (body, leaves) in zip(texts, scenario.texts):
            text.join(max(0, end - time.monotonic()))
            if text.is_alive():
                return f'a request never ended: {body}'
            if leaves is not None:
                continue
            if text.error:
                return f'a request failed: {text.error}'
            if text.text() != self.known[self.key(body)]:
                return f'another text: {body}: {text.text()[:100]}'
        return ''

    def wrong_afterwards(self, scenario, server):
        """A new request is answered, too."""
        body = scenario.texts[0][0] | {'stream': False}
        text = Text(server, body)
        text.join(ENDS_S)
        if text.is_alive() or text.error:
            return f'it does not serve afterwards: {text.error}'
        return '' if text.text() == self.known[self.key(body)] else 'another text afterwards'

    def remains(self, server, cluster):
        """What is left after its end, on machines that answer again; empty: nothing."""
        if (code := server.end()) != 0:
            return f'exit code {code}: {server.said[-3:]}'
        for host in cluster.hosts:
            set_link(host, 'up')
            for process in host.processes():
                kill(process, signal.SIGCONT)
        end = time.monotonic() + CLEAN_S
        while left := [f'{name_of(it)} on {host.name}' for host in cluster.hosts for it in host.processes() if emulation.runs(it)]:
            if time.monotonic() > end:
                return f'left {", ".join(left)}'
            time.sleep(0.05)
        shared = [path.name for path in pathlib.Path('/dev/shm').glob('vader_segment.n*')]
        return f'left shared memory: {shared}' if shared else ''


def play_all(seeds, progress, verbose, rows):
    campaign = Campaign()
    for number, seed in enumerate(seeds):
        scenario = Scenario(seed)
        progress.show(number, scenario.describe())
        rows.append(row := campaign.play(scenario))
        if row['outcome'] != 'right' or verbose:
            progress.line(f'{scenario.describe()}: {row["outcome"]} ({row.get("losses")} losses, {row.get("pause_s")} s)')
    progress.line('')
