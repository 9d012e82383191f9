"""Random faults under launch/serve on emulated hosts: every text is the one that it would have been, every request ends, and nothing is
left behind."""
import pathlib
import random
import time

from common import places

from . import hosts as emulation
from .campaign import PATIENCE
from .served import Server, Text, Undisturbed, name_of, processes
from .served_faults import KINDS, Fault, repair

MOMENTS = ['start', 'prompt', 'text', 'text', 'text', 'last token', 'idle', 'cancelling', 'ending']
PROMPTS = ['Once upon a time there was a king who', 'The fox said to the wolf', 'In a village near the wood lived a poor woodcutter. ' * 12]
SAMPLINGS = [{'temperature': 0}, {'temperature': 1.6, 'top_k': 0, 'top_p': 1, 'min_p': 0, 'repeat_penalty': 1.2}]
COLUMNS = ['seed', 'hosts', 'model', 'texts', 'moment', 'faults', 'losses', 'generations', 'pause_s', 'outcome']
ENDS_S = 60 * PATIENCE    # a request ends within this time, whatever happens
CLEAN_S = 10 * PATIENCE   # then nothing of lost generations is left
LATEST_S = 60 * PATIENCE  # the moment of a fault comes within this time
TARGET, DRAFT = (places.ROOT / 'models' / f'tales-{name}-q8_0.gguf' for name in ('target', 'draft'))


class Scenario:
    """Everything that a seed determines. A seventh of them have no fault. `texts`: (request, pieces after which its client leaves)."""

    def __init__(self, seed):
        draw = random.Random(f'served {seed}')
        self.seed, self.hosts = seed, draw.choice([3, 4])
        self.moment, self.share = draw.choice(MOMENTS), draw.uniform(0.05, 0.9)
        count = 0 if draw.random() < 1 / 7 else 2 if draw.random() < 0.4 else 1
        self.faults = [Fault(draw.choice(KINDS), draw.randrange(self.hosts), round(draw.uniform(0.2, 2), 2)) for _ in range(count)]
        self.during_restart, self.wait_s = draw.random() < .5, draw.uniform(0.1, 3)  # the second one
        self.texts = []
        for i in range(draw.randint(1, 4)):
            body = draw.choice(SAMPLINGS) | {'prompt': draw.choice(PROMPTS), 'seed': draw.randrange(3), 'max_tokens': 160,
                                             'ignore_eos': True, 'cache_prompt': draw.random() < .5, 'stream': draw.random() < .8}
            leaves = body['stream'] and draw.random() < .2
            if i == 0 and self.moment == 'cancelling':
                body['stream'] = leaves = True
            self.texts.append((body, draw.randint(1, 30) if leaves else None))
        self.guesses = draw.random() < .5

    def describe(self):
        what = (', in the restart ' if self.during_restart else ', then ').join(fault.describe() for fault in self.faults) or 'no fault'
        return f'seed {self.seed}: {self.hosts} hosts, {len(self.texts)} texts, {what}, {self.moment}'


class Campaign:
    """`model`: besides the demonstration pair, of which drafts are then not used."""

    def __init__(self, model=None):
        self.model, self.drafts = model or TARGET, model is None
        self.known = Undisturbed()

    def play(self, scenario):
        """A row of the table."""
        row = {'seed': scenario.seed, 'hosts': scenario.hosts, 'model': self.model.stem, 'texts': len(scenario.texts),
               'moment': scenario.moment, 'faults': '; '.join(fault.describe() for fault in scenario.faults)}
        guesses = scenario.guesses and self.drafts
        with emulation.Cluster(scenario.hosts, delay=[0.1], rate=[1000]) as cluster:
            server = Server(cluster, '-m', str(self.model), '-t', '1', '-c', '1024', '--layer-split',
                            ','.join(['1'] * (scenario.hosts - guesses)) + '/1' * guesses, *(['-md', str(DRAFT)] if guesses else []))
            try:
                if scenario.moment == 'start':
                    self.strike_at_start(scenario, server)
                row |= self.watch(scenario, server)
                row['outcome'] = row['outcome'] or self.remains(scenario, server, cluster) or 'right'
            finally:
                if server.process.poll() is None:
                    server.process.kill()
        return row

    def strike_at_start(self, scenario, server):
        hosts = server.cluster.hosts
        wait_until(lambda: server.process.poll() is not None or any(processes(host, 'yamata') for host in hosts))
        time.sleep(scenario.share)
        for fault in scenario.faults:
            fault.strike(server)

    def watch(self, scenario, server):
        """Columns of its row. The outcome is empty if it is right."""
        if not server.wait_until_it_serves():
            at_start = scenario.moment == 'start' and scenario.faults and wait_until(lambda: server.process.poll() is not None, CLEAN_S)
            return {'outcome': '' if at_start else f'did not start: {server.said[-3:]}'}
        for body, _ in scenario.texts:
            self.known.learn(server, body)
        texts = [Text(server, *its) for its in scenario.texts]
        if scenario.moment != 'start':
            self.wait_for(scenario, texts)
            self.strike(scenario, server)
        outcome = self.wrong_texts(scenario, texts) or scenario.moment != 'ending' and self.wrong_afterwards(scenario, server) or ''
        health = {} if scenario.moment == 'ending' else server.health()
        if not scenario.faults and health.get('losses'):
            outcome = outcome or f'an alarm without a fault: {health["last_loss"]["why"]}'
        return {'losses': health.get('losses'), 'generations': health.get('generation'), 'outcome': outcome,
                'pause_s': round(max(text.longest_gap_s() for text in texts), 1)}

    def wait_for(self, scenario, texts):
        """Until the moment of the first fault."""
        streams = [text for text in texts if text.body['stream']] or texts

        def is_near_end(text):
            return len(text.text_so_far()) > 0.97 * len(self.known.text(text.body))

        def come():
            if scenario.moment == 'cancelling':
                return not texts[0].is_alive()
            if scenario.moment == 'last token' and any(map(is_near_end, streams)):
                return True
            pieces = {'prompt': 0, 'last token': 10**9, 'idle': 10**9}.get(scenario.moment, scenario.share * 30)
            return not any(text.is_alive() and len(text.pieces) < pieces for text in streams)
        wait_until(come)

    def strike(self, scenario, server):
        if scenario.moment == 'ending':
            server.process.terminate()
        for i, fault in enumerate(scenario.faults):
            if i and scenario.during_restart:
                wait_until(lambda: 'going on with' in ''.join(server.said) or server.process.poll() is not None, 6 * PATIENCE)
                time.sleep(scenario.wait_s / 3)
            elif i:
                time.sleep(scenario.wait_s)
            fault.strike(server)

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
            if text.text() != self.known.text(body):
                return f'another text: {body}: {text.text()[:100]}'
        return ''

    def wrong_afterwards(self, scenario, server):
        """A new request is answered, too."""
        body = scenario.texts[0][0] | {'stream': False}
        text = Text(server, body)
        text.join(ENDS_S)
        if text.is_alive() or text.error:
            return f'it does not serve afterwards: {text.error}'
        return '' if text.text() == self.known.text(body) else 'another text afterwards'

    def remains(self, scenario, server, cluster):
        """What is left after its end, on machines that answer again; empty: nothing."""
        code = server.process.wait(ENDS_S) if scenario.moment == 'ending' or server.port is None else server.end()
        if code != (0 if server.port else 3):
            return f'exit code {code}: {server.said[-3:]}'
        repair(cluster)
        return left_on(cluster)


def left_on(cluster):
    """Processes and shared memory that do not end; empty: there are none."""
    def left():
        return [f'{name_of(it)} on {host.name}' for host in cluster.hosts for it in host.processes() if emulation.runs(it)]
    if not wait_until(lambda: not left(), CLEAN_S):
        return f'left {", ".join(left())}'
    shared = [path.name for path in pathlib.Path('/dev/shm').glob('vader_segment.n*')]
    return f'left shared memory: {shared}' if shared else ''


def wait_until(condition, limit_s=LATEST_S, tick_s=0.002):
    """Whether it came true."""
    end = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(tick_s)
    return True
