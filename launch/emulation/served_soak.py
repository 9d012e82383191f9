"""Hours under launch/serve on emulated hosts with a lost machine every few minutes: texts are right, and nothing grows."""
import pathlib
import random
import re
import tempfile
import threading
import time

from . import hosts as emulation
from .campaign import PATIENCE
from .served import Server, Text, Undisturbed, processes
from .served_campaign import DRAFT, PROMPTS, SAMPLINGS, TARGET, left_on, wait_until
from .served_faults import KINDS, Fault, repair

COLUMNS = ['minutes', 'fault', 'pause_s', 'losses', 'alarms', 'texts', 'wrong', 'generation', 'machines_here', 'server_mb',
           'server_descriptors', 'server_threads', 'engines_mb', 'processes', 'shared_files', 'temporary_files']
FLAT = ['server_descriptors', 'server_threads', 'processes', 'shared_files', 'temporary_files']
REPAIR_S = 20 * PATIENCE  # after a fault
LEARNING = 0.25           # memory may grow in the first quarter
GROWTH = 1.15


def status_of(process, name):
    """A number of /proc/N/status; 0: it has ended."""
    try:
        found = re.search(rf'^{name}:\s+(\d+)', pathlib.Path(f'/proc/{process}/status').read_text(), re.M)
    except OSError:
        found = None
    return int(found[1]) if found else 0


def count(folder, pattern='*'):
    return sum(1 for _ in pathlib.Path(folder).glob(pattern))


class Client(threading.Thread):
    """Asks for one text after the other, some of which it leaves, and checks the others."""

    def __init__(self, server, known, number, over):
        super().__init__(daemon=True)
        self.server, self.known, self.draw, self.over = server, known, random.Random(f'client {number}'), over
        self.texts, self.wrong, self.pause_s = 0, [], 0
        self.start()

    def run(self):
        while not self.over.is_set():
            body = request(self.draw)
            leaves = self.draw.randint(1, 30) if body['stream'] and self.draw.random() < .15 else None
            text = Text(self.server, body, leaves)
            text.join()
            self.texts += 1
            if self.over.is_set():
                return
            if text.error or leaves is None and text.text_so_far() != self.known.text(body):
                self.wrong.append(str(text.error or f'another text for {body}'))
            self.pause_s = max([self.pause_s, text.longest_gap_s(), *(at - text.begin for at, _ in text.pieces[:1])])
            self.over.wait(self.draw.uniform(0, 4))


def request(draw):
    return draw.choice(SAMPLINGS) | {'prompt': draw.choice(PROMPTS), 'seed': draw.randrange(3), 'max_tokens': draw.choice([40, 160, 400]),
                                     'ignore_eos': True, 'cache_prompt': draw.random() < .5, 'stream': draw.random() < .8}


class Known(Undisturbed):
    """Texts of several lengths."""

    def key(self, body):
        return super().key(body) + str(body['max_tokens'])

    def learn_all(self, server):
        for sampling in SAMPLINGS:
            for prompt in PROMPTS:
                for seed in range(3):
                    for tokens in 40, 160, 400:
                        self.learn(server, sampling | {'prompt': prompt, 'seed': seed, 'max_tokens': tokens, 'ignore_eos': True})


class Soak:
    """`rows`: a row for each fault, and one before the first, taken when the next one is due."""

    def __init__(self, hours, every_s, clients, hosts, rows, say):
        self.end, self.every_s, self.client_count, self.host_count = time.monotonic() + 3600 * hours, every_s, clients, hosts
        self.rows, self.say, self.draw, self.begin = rows, say, random.Random('soak'), time.monotonic()
        self.over, self.clients, self.alarms, self.losses = threading.Event(), [], 0, 0

    def run(self):
        """What was wrong; empty: nothing."""
        with emulation.Cluster(self.host_count, delay=[0.1], rate=[1000]) as cluster:
            split = ','.join(['1'] * (self.host_count - 1)) + '/1'
            self.server = Server(cluster, '-m', str(TARGET), '-t', '1', '-c', '2048', '--layer-split', split, '-md', str(DRAFT))
            try:
                if not self.server.wait_until_it_serves():
                    return f'did not start: {self.server.said[-3:]}'
                return self.watch(cluster)
            finally:
                self.over.set()
                if self.server.process.poll() is None:
                    self.server.process.kill()

    def watch(self, cluster):
        known = Known()
        known.learn_all(self.server)
        self.clients = [Client(self.server, known, number, self.over) for number in range(self.client_count)]
        fault = None
        while self.server.process.poll() is None:
            self.wait_for_next(self.begin + (len(self.rows) + 1) * self.every_s)
            self.add_row(fault, cluster)
            if time.monotonic() >= self.end:
                break
            fault = self.strike(cluster)
        self.over.set()
        code = self.server.end()
        repair(cluster)
        return self.verdict() or (f'exit code {code}' if code else '') or left_on(cluster)

    def wait_for_next(self, due):
        """A loss after all machines take part again is an alarm without a fault."""
        def ended():
            return self.server.process.poll() is not None
        wait_until(lambda: ended() or all(it['here'] for it in self.server.health()['machines']), due - time.monotonic(), 0.5)
        before = self.server.health()['losses']
        wait_until(ended, due - time.monotonic(), 0.5)
        self.alarms += self.server.health()['losses'] - before

    def strike(self, cluster):
        fault = Fault(self.draw.choice(KINDS), self.draw.randrange(self.host_count), round(self.draw.uniform(0.2, 2), 2))
        for client in self.clients:
            client.pause_s = 0
        fault.strike(self.server)
        wait_until(lambda: self.server.process.poll() is not None, REPAIR_S, 0.5)
        repair(cluster)
        return fault

    def add_row(self, fault, cluster):
        server, health = self.server.process.pid, self.server.health()
        mine = [process for host in cluster.hosts for process in host.processes()]
        engines = [process for host in cluster.hosts for process in processes(host, 'yamata')]
        row = {'minutes': round((time.monotonic() - self.begin) / 60, 1), 'fault': fault.describe() if fault else '',
               'pause_s': round(max((client.pause_s for client in self.clients), default=0), 1), 'losses': health['losses'],
               'alarms': self.alarms, 'texts': sum(client.texts for client in self.clients),
               'wrong': sum(len(client.wrong) for client in self.clients), 'generation': health['generation'],
               'machines_here': sum(it['here'] for it in health['machines']), 'server_mb': round(status_of(server, 'VmRSS') / 1024, 1),
               'server_descriptors': count(f'/proc/{server}/fd'), 'server_threads': status_of(server, 'Threads'),
               'engines_mb': round(sum(status_of(it, 'VmRSS') for it in engines) / 1024, 1), 'processes': len(mine),
               'shared_files': count('/dev/shm', 'vader_segment.n*') + count('/dev/shm', f'yamata-serve-{server}-*/*'),
               'temporary_files': count(tempfile.gettempdir(), f'yamata-serve-{server}-*/*') + count(cluster.folder, 'ompi.n*/*')}
        self.rows.append(row)
        self.say(', '.join(f'{name} {row[name]}' for name in COLUMNS))

    def verdict(self):
        wrong = [what for client in self.clients for what in client.wrong]
        if wrong:
            return f'{len(wrong)} texts were wrong; the first: {wrong[0]}'
        if self.alarms:
            return f'{self.alarms} alarms without a fault'
        if any(client.is_alive() for client in self.clients if not client.join(90 * PATIENCE)):
            return 'a request never ended'
        first = self.rows[:max(3, round(len(self.rows) * LEARNING))]
        last = self.rows[-max(3, len(first)):]
        grown = [name for name in FLAT if min(row[name] for row in last) > max(row[name] for row in first)]
        if min(row['server_mb'] for row in last) > GROWTH * max(row['server_mb'] for row in first):
            grown.append('server_mb')
        return f'grown: {", ".join(grown)}' if grown else ''
