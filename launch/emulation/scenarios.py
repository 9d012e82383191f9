"""Random heterogeneous clusters, layouts and faults, each determined by a seed."""
import platform
import random

PROMPTS = ['Once upon a time there was a king who had three sons.',
           'There was once a poor woman who lived in a little cottage near the forest, and',
           'The prince rode out into the wide world to seek his fortune, and when he came to a great castle he']
KILLS = 'killed drafter', 'killed host'
CHANGES = 'slow host', 'unsteady host'  # of speed: only a quota can be changed during a job
FAULTS = ['none', 'slow host', 'stalled link', 'killed drafter']
LAYOUTS = ['auto', 'auto', 'pipeline', 'group', 'pipeline of groups']
DRAFTS = ['none', 'rank 0', 'own rank']
OLDER_ISA = {'x86_64': 'avx2', 'aarch64': 'neon'}  # what older machines of this kind have
MOST_MEMBERS = 4  # of a group: the demonstration models have few attention heads
SCALAR_SLOWER, CORES_FASTER = 8, 1.8  # roughly: the scalar kernels, and two cores


def stages_of(draw, kind, ranks):
    """The number of members of each stage."""
    if kind == 'pipeline':
        return [1] * ranks
    if kind == 'group' or ranks < 3:
        return [ranks]
    first = draw.randint(1, min(MOST_MEMBERS, ranks - 1))
    last = ranks - first
    return [first, 2, last - 2] if last > 3 else [first, last]


class Layout:
    """How the target's layers are shared out, and which rank drafts. `auto` leaves both to Yamata; its `draft` is 'auto'."""

    def __init__(self, draw, speeds, kind=None):
        drawn = draw.choice(LAYOUTS)
        self.kind = kind or drawn
        self.draft = 'auto' if self.kind == 'auto' else draw.choice(DRAFTS)
        if self.kind == 'pipeline of groups' and self.draft == 'own rank' and len(speeds) == 3:
            self.draft = 'rank 0'  # two ranks are no pipeline of groups
        self.ranks = len(speeds) - (self.draft == 'own rank')  # of the target
        if self.kind == 'group':
            self.ranks = min(self.ranks, MOST_MEMBERS)  # the other hosts get no rank
        self.strategy = 'pipeinfer' if self.draft == 'own rank' else draw.choice(['pipeinfer', 'speculative'])
        shares = [f'{max(0.01, speed / sum(speeds[:self.ranks])):.2f}' for speed in speeds[:self.ranks]]
        self.split = ''
        for members in stages_of(draw, self.kind, self.ranks) if self.kind != 'auto' else ():
            self.split += (',' if self.split else '') + '+'.join(shares[:members])
            del shares[:members]

    def describe(self):
        return 'auto' if self.kind == 'auto' else f'{self.split} {self.strategy}, draft: {self.draft}'

    def roles(self):
        """{rank: role}, if the layout is given."""
        leads = 'head, drafter' if self.draft == 'rank 0' else 'head'
        roles = dict(enumerate([leads] + ['stage'] * (self.ranks - 1)))
        return roles | ({self.ranks: 'drafter'} if self.draft == 'own rank' else {})

    def plain(self):
        """The flags of a job without guesses, with the same place for the target."""
        return ['--strategy', 'iterative', *(['--layer-split', self.split] if self.split else [])]

    def guessing(self, draft):
        """The flags of a job with guesses. `draft`: the draft model's file."""
        model = [] if self.draft == 'none' else ['-md', str(draft)]
        if self.kind == 'auto':
            return model
        drafter = '/1' if self.draft == 'own rank' else ''
        return [*model, '--strategy', self.strategy, '--layer-split', self.split + drafter]


class Scenario:
    """Everything that a seed determines. `calm`: without a fault, and Yamata chooses the layout."""

    def __init__(self, seed, calm=False):
        draw = random.Random(seed)
        self.seed = seed
        self.hosts = draw.randint(3, 6)
        self.cpu = [draw.choice([10, 15, 20, 25, 30, 40]) for _ in range(self.hosts)]  # speed in percent of one core
        self.rate = [round(10 ** draw.uniform(1, 3)) for _ in range(self.hosts)]
        self.delay = [round(draw.uniform(0, 5), 1) for _ in range(self.hosts)]
        fault = draw.choice(FAULTS)
        self.pick = draw.random()                 # which of the hosts that take part
        self.moment = draw.uniform(0.2, 0.6)      # share of the text that is written when the fault happens
        self.prompt = draw.choice(PROMPTS)
        if fault == 'slow host':
            fault = draw.choice(CHANGES)
        self.fault = 'none' if calm else fault
        self.slowed_by = 'quotas' if self.fault in CHANGES else 'pauses'
        self.cores = [draw.choice([1, 1, 2]) if self.slowed_by == 'pauses' else 1 for _ in range(self.hosts)]
        kinds = ['best'] * 4 + [OLDER_ISA.get(platform.machine(), 'scalar')] * 2 + ['scalar']
        self.isa = [draw.choice(kinds) for _ in range(self.hosts)]
        unsteady_links, lossy = draw.random() < 0.5, draw.random() < 0.25
        self.jitter = [round(draw.uniform(0, delay), 1) if unsteady_links else 0 for delay in self.delay]
        self.loss = [draw.choice([0, 0.1, 1]) if lossy and not calm else 0 for _ in range(self.hosts)]
        self.layout = Layout(draw, self.speeds(), 'auto' if calm else None)
        if self.fault == 'killed drafter' and self.layout.draft in ('none', 'rank 0'):
            self.fault = 'killed host'

    def speeds(self):
        """Roughly, relative to one core."""
        return [cpu / 100 * (CORES_FASTER if cores > 1 else 1) / (SCALAR_SLOWER if isa == 'scalar' else 1)
                for cpu, cores, isa in zip(self.cpu, self.cores, self.isa)]

    def limits(self):
        """The arguments of Cluster."""
        if self.slowed_by == 'quotas':
            speed = dict(cpu=self.cpu)
        else:  # slow enough that all hosts can compute in turn; without a quota of 100 %, a host has all cores
            whole = max(100, 1.001 * sum(self.cpu))
            speed = dict(cpu=[100 if cores == 1 else None for cores in self.cores], slow=[whole / cpu for cpu in self.cpu])
        environments = [{} if isa == 'best' else {'YAMATA_ISA': isa} for isa in self.isa]
        return dict(rate=self.rate, delay=self.delay, jitter=self.jitter, loss=self.loss, environments=environments, **speed)

    def victim_of(self, ranks):
        """One of these ranks."""
        ranks = sorted(ranks)
        return ranks[int(self.pick * len(ranks))]

    def describe(self):
        return (f'seed {self.seed}: {self.hosts} hosts, {self.slowed_by}: {self.cpu} %, cores {self.cores}, isa {self.isa}, '
                f'{self.rate} Mbit/s, {self.delay} ms, jitter {self.jitter} ms, loss {self.loss} %, '
                f'layout {self.layout.describe()}, {self.fault}')
