"""Random layouts of a job on one machine, in which one rank has the machine's GPU."""
import random


def shares_of(draw, ranks):
    """Random stages of the target, each of one rank or of a group, as in --layer-split."""
    stages, left = [], ranks
    while left > 0:
        members = draw.randint(1, min(2, left))
        stages.append('+'.join(f'{draw.uniform(0.2, 1):.2f}' for _ in range(members)))
        left -= members
    return ','.join(stages)


def units_of(draw, device):
    """The GPU alone, or with cores that share its layers or have layers of their own."""
    return draw.choice([['--units', device], ['--units', f'cpu+{device}', '-t', '1'],
                        ['--units', f'cpu+{device}', '-ngl', str(draw.randint(1, 9)), '-t', '1']])


class DeviceLayout:
    """Everything that a seed determines about it. The last rank drafts, if there is a draft at all."""

    def __init__(self, seed, ranks, device):
        draw = random.Random(f'layout {seed}')
        drafts = draw.random() < 0.6
        self.split = shares_of(draw, ranks - drafts) + ('/1' if drafts else '')
        self.rank = draw.randrange(ranks)
        self.drafts_on_device = drafts and self.rank == ranks - 1
        self.units = [units_of(draw, device) if rank == self.rank else ['-t', '1'] for rank in range(ranks)]

    def describe(self):
        return f'--layer-split {self.split}, rank {self.rank} with {" ".join(self.units[self.rank])}'

    def command(self, program):
        """For mpirun, which gives the first of them one process."""
        ranks = ([':', '-np', '1'] * (rank > 0) + [*program, '--layer-split', self.split, *its] for rank, its in enumerate(self.units))
        return sum(ranks, [])
