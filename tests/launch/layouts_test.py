"""Random layouts under mpirun give the ids and logits of one plain rank. They have random units, groups, stages, drafters, strategies,
cancellation and cache types.

    layouts_test.py YAMATA [--count N] [--seed S] [--devices]      N random layouts, printed so that each can be repeated
"""
import argparse
import json
import os
import pathlib
import random
import subprocess
import tempfile

from emulated_device import environment

LONGEST_S = 300 * float(os.environ.get('YAMATA_PATIENCE', 1))  # for a job; a longer one counts as hanging
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TARGET, DRAFT = (str(ROOT / 'models' / f'tales-{name}-q8_0.gguf') for name in ('target', 'draft'))
PROMPTS = ['Once upon a time there was', 'The King said to his three sons: "Whoever', 'A']
MOST_RANKS = 7


def shares(rng, groups):
    return ','.join('+'.join(f'{rng.uniform(.05, 1):.2f}' for _ in range(members)) for members in groups)


def random_units(rng, devices):
    """The units of a rank: some threads, or units that share its layers; with `devices`, one of them is always an emulated device."""
    cores = sorted(os.sched_getaffinity(0))
    if devices:
        units = ['emulated', *(f'cpu:{core}' for core in rng.sample(cores, rng.randint(0, min(2, len(cores)))))]
        rng.shuffle(units)
    elif len(cores) < 2 or rng.random() < .4:
        return ['-t', str(rng.choice([1, 1, 2]))]
    else:
        units = [f'cpu:{core}' for core in rng.sample(cores, rng.randint(2, min(3, len(cores))))]
    if devices and len(units) > 1 and rng.random() < .4:
        return ['--units', '+'.join(units), '-ngl', str(rng.randint(1, 9))]
    if len(units) > 1 and rng.random() < .6:
        parts = [rng.randint(1, 20) for _ in units]
        shares = [round(part / sum(parts), 3) for part in parts]
        units = [f'{unit}={share}' for unit, share in zip(units, shares)]
    return ['--units', '+'.join(units)]


def random_layout(rng, devices):
    """The number of ranks, and the flags of a run."""
    target = [rng.choice([1, 2, 2, 3]) for _ in range(rng.choice([1, 1, 2, 3]))]
    strategy = rng.choice(['iterative', 'speculative', 'pipeinfer', 'pipeinfer'])
    flags, drafts = ['--strategy', strategy], []
    if strategy != 'iterative':
        flags += ['-md', DRAFT]
        drafts = [] if rng.random() < .25 else [rng.choice([[1], [2], [1, 1]])]
    if sum(target) + sum(map(sum, drafts)) > MOST_RANKS:
        return random_layout(rng, devices)
    split = '/'.join(shares(rng, groups) for groups in [target, *drafts])
    flags += ['--layer-split', split]
    if rng.random() < .3:
        flags.append('--no-cancel')
    if rng.random() < .3:
        flags.append('--no-repack')
    if strategy != 'iterative' and rng.random() < .3:
        flags += ['--policy', 'chain']
    flags += ['-b', str(rng.choice([3, 16, 64])), *random_units(rng, devices)]
    return sum(target) + sum(map(sum, drafts)), flags


def result(program, folder, ranks, flags, setting=''):
    out = pathlib.Path(folder, 'result.json')
    out.unlink(missing_ok=True)
    launcher = ['mpirun', '--oversubscribe', '--bind-to', 'none', '-np', str(ranks)] if ranks > 1 else []
    command = [*launcher, program, 'run', '-m', TARGET, '-n', '40', '--ignore-eos', '--logits-checksum', '--json', str(out), *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST_S, env=environment(setting))
    if done.returncode:
        raise SystemExit(f'exit {done.returncode}: {" ".join(command)}\n{done.stderr[-2000:]}')
    j = json.loads(out.read_text())
    return j['token_ids'], j['logits_checksum']


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('program')
    parser.add_argument('--count', type=int, help='default: 12, on devices 6; half as many in the everyday suite, a third on devices')
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--devices', action='store_true', help='the program is one with emulated devices, which are used')
    o = parser.parse_args()
    count = o.count or (6 if o.devices else 12) // (1 if os.environ.get('YAMATA_THOROUGH') else 3 if o.devices else 2)
    alone, wrong = {}, 0
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(o.seed, o.seed + count):
            rng = random.Random(seed)
            what = ['-p', rng.choice(PROMPTS), '--cache-type-k', rng.choice(['f16', 'f32', 'q8_0']), '--cache-type-v',
                    rng.choice(['f16', 'q8_0'])]
            ranks, flags = random_layout(rng, o.devices)
            key = tuple(what)
            if key not in alone:
                alone[key] = result(o.program, folder, 0, [*what, '-t', '1'])
            setting = rng.choice(['', 'discrete']) + rng.choice(['', ' waits=stream', ' waits=stream graphs=off'])
            same = result(o.program, folder, ranks, [*what, *flags], setting) == alone[key]
            print(f'{"ok  " if same else "FAIL"} seed {seed}: {ranks} ranks {" ".join(flags)} {setting if o.devices else ""}', flush=True)
            wrong += not same
    raise SystemExit(1 if wrong else 0)


main()
