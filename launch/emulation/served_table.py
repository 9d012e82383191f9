"""What launch/faults plays under launch/serve: random scenarios, or a table of every fault with 3 and 4 emulated hosts, greedy and drawn
texts, one and four at a time."""
import itertools
import statistics

from common.progress import Progress

from .served_campaign import PROMPTS, SAMPLINGS, Campaign, Scenario
from .served_faults import Fault

FAULTS = {'kill rank': [('kill rank', 1)], 'kill head': [('kill rank', 0)], 'kill guard': [('kill guard', 1)],
          'kill daemon': [('kill daemon', 1)], 'kill mpirun': [('kill mpirun', 0)], 'stop rank': [('stop rank', 1)],
          'stop head': [('stop rank', 0)], 'stop guard': [('stop guard', 1)], 'stop daemon': [('stop daemon', 1)],
          'stop mpirun': [('stop mpirun', 0)], 'cut link': [('cut link', 1)], 'cut head': [('cut link', 0)],
          'short outage': [('short outage', 1)], 'flapping link': [('flapping link', 1)], 'lose power': [('lose power', 1)],
          'lose two': [('lose power', 1), ('lose power', 2)], 'all others': [('cut all others', 0)],
          'second at 0.3 s': [('kill rank', 1), ('kill rank', 2)], 'second at 0.6 s': [('kill rank', 1), ('kill rank', 2)],
          'second at 1 s': [('kill rank', 1), ('kill rank', 2)]}
SECOND_S = {'second at 0.3 s': 0.3, 'second at 0.6 s': 0.6, 'second at 1 s': 1.0}  # of the restart
TOKENS = 320


class Case:
    """A row of the table, as a Scenario is one of the campaign. `seed`: its number."""
    moment, share, guesses = 'text', 0.7, False

    def __init__(self, seed, name, hosts, sampling, count):
        self.seed, self.name, self.hosts = seed, name, hosts
        self.faults = [Fault(*its) for its in FAULTS[name]]
        self.during_restart = name in SECOND_S
        self.wait_s = 3 * SECOND_S.get(name, 0)
        self.texts = [(SAMPLINGS[sampling] | {'prompt': PROMPTS[i % len(PROMPTS)], 'seed': i, 'max_tokens': TOKENS, 'ignore_eos': True,
                                              'cache_prompt': False, 'stream': True}, None) for i in range(count)]

    def describe(self):
        how = 'drawn' if self.texts[0][0]['temperature'] else 'greedy'
        return f'{self.seed}: {self.name}, {self.hosts} hosts, {len(self.texts)} {how}'


def cases():
    every = itertools.product(FAULTS, (3, 4), range(len(SAMPLINGS)), (1, 4))
    return [Case(number, *its) for number, its in enumerate(every, 1)]


def summary(rows):
    """Lines: the pauses of each fault."""
    names = {case.seed: case.name for case in cases()}
    for name in FAULTS:
        pauses = [row['pause_s'] for row in rows if names[row['seed']] == name and 'pause_s' in row]
        if pauses:
            yield f'{name}: median {statistics.median(pauses):.1f} s, longest {max(pauses):.1f} s, of {len(pauses)}'


def play_all(arguments, rows):
    """Adds a row for each."""
    seeds = arguments.seeds
    scenarios = [case for case in cases() if case.seed in seeds] if arguments.table else [Scenario(seed) for seed in seeds]
    campaign, progress = Campaign(arguments.model), Progress(len(scenarios))
    for number, scenario in enumerate(scenarios):
        progress.show(number, scenario.describe())
        rows.append(row := campaign.play(scenario))
        if row['outcome'] != 'right' or arguments.verbose:
            progress.line(f'{scenario.describe()}: {row["outcome"]} ({row.get("losses")} losses, {row.get("pause_s")} s)')
    progress.line('')
    for line in summary(rows) if arguments.table else ():
        progress.line(line)
