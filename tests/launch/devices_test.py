"""Whole jobs on the emulated device, alone and together with CPU cores, give the ids and logits of one plain rank. If a device lacks
something, the error is one line.

    devices_test.py YAMATA YAMATA_EMULATED [--filter WORD]

In the everyday suite, every fourth job runs, with half of the tokens, and all errors.
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import tempfile

from emulated_device import environment

LONGEST_S = 300 * float(os.environ.get('YAMATA_PATIENCE', 1))  # for a job; a longer one counts as hanging
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TARGET, DRAFT = (str(ROOT / 'models' / f'tales-{name}-q8_0.gguf') for name in ('target', 'draft'))
THOROUGH = bool(os.environ.get('YAMATA_THOROUGH'))
TOKENS = '24' if THOROUGH else '12'
RUN = ['run', '-m', TARGET, '-p', 'Once upon a time there was', '-n', TOKENS, '--ignore-eos']
MPIRUN = ['mpirun', '--oversubscribe', '--bind-to', 'none']

HEADS = {name: str(ROOT / 'models' / f'tales-{name}.safetensors') for name in ('dgf', 'medusa')}

# Ranks, flags, and settings of the emulated device. Without a checksum, of a row of logits only the highest is read.
UNREAD = [
    (1, '--units emulated', 'discrete'),
    (1, '--units cpu+emulated', 'waits=stream'),
    (1, '--units cpu+emulated -ngl 99', 'discrete'),
    (1, f'--units emulated=0.4+cpu -md {DRAFT} --strategy speculative', ''),
    (2, '--units cpu+emulated --layer-split 0.3+0.7', 'discrete'),
    (2, '--units emulated --layer-split 0.5,0.5', ''),
]
JOBS = [
    (1, '--units emulated', ''),
    (1, '--units emulated -b 3 --cache-type-k f16', 'discrete'),
    (1, '--units emulated --no-repack -n 8', 'discrete'),
    (2, '--units emulated --layer-split 0.5,0.5', ''),
    (2, '--units emulated --layer-split 0.3+0.7', 'discrete'),
    (2, f'--units emulated -md {DRAFT} --layer-split 1/1', ''),
    (1, f'--units emulated -md {DRAFT} --strategy speculative', ''),
    (1, '--units cpu+emulated', ''),
    (1, '--units emulated=0.3+cpu -t 1', 'discrete'),
    (1, '--units emulated:0+cpu=0.2+emulated:1=0.35', 'discrete'),
    (1, f'--units cpu+emulated=0.6 -md {DRAFT} --strategy speculative', ''),
    (2, f'--units cpu+emulated -md {DRAFT} --layer-split 1/1', 'discrete'),
    (3, f'--units cpu=0.5+emulated -md {DRAFT} --layer-split 0.6+0.4/1 -b 3', ''),
    (2, '--units cpu+emulated=0.1 --layer-split 0.5,0.5 --strategy pipeinfer', ''),
    (1, '--units cpu+emulated -ngl 3', 'discrete'),
    (1, '--units emulated+cpu -ngl 1 --no-repack -n 8', 'discrete'),
    (1, '-ngl 99', ''),
    (2, '-ngl 2 --layer-split 0.5,0.5 -b 3 --cache-type-k f16', 'discrete'),
    (2, '--units cpu+emulated --gpu-layers 4 --layer-split 0.3+0.7', ''),
    (1, f'-ngl 2 -md {DRAFT} --strategy speculative', 'discrete'),
    (2, f'-ngl 5 -md {DRAFT} --layer-split 1/1', ''),
    (1, f'-ngl 3 --draft-units emulated --heads {HEADS["dgf"]}', 'discrete'),
    (1, f'--units cpu+emulated:0 -ngl 99 --draft-units emulated:0 --heads {HEADS["medusa"]}', ''),
    (1, f'-ngl auto --draft-units emulated -md {DRAFT} --strategy speculative -b 3 -c 64', 'discrete bytes=60000000'),
    (1, f'--units emulated --draft-units emulated:0 --heads {HEADS["dgf"]}', 'discrete'),
    (1, f'--units cpu+emulated --draft-units emulated -md {DRAFT} --strategy pipeinfer', 'waits=stream'),
    (2, f'-ngl 2 --draft-units emulated --heads {HEADS["dgf"]} --layer-split 0.5,0.5', 'discrete waits=stream'),
    (1, '--units emulated', 'graphs=off'),
    (1, '--units cpu+emulated', 'waits=stream'),
    (1, '--units emulated:0+cpu=0.2+emulated:1=0.35', 'discrete waits=stream'),
    (2, f'--units cpu+emulated -md {DRAFT} --layer-split 1/1', 'discrete waits=stream graphs=off'),
    (2, '--units emulated --layer-split 0.3+0.7', 'discrete waits=stream'),
    (3, f'--units cpu=0.5+emulated -md {DRAFT} --layer-split 0.6+0.4/1 -b 3', 'waits=stream'),
    (2, '--units cpu+emulated --gpu-layers 4 --layer-split 0.3+0.7', 'waits=stream'),
    (2, '--units cpu+emulated=0.1 --layer-split 0.5,0.5 --strategy pipeinfer', 'waits=stream'),
]

# Flags, settings of the device, and the expected devices in the report.
LAYERS = [
    ('--units cpu+emulated -ngl 3', '', 'emulated:0 (3 layers)+cpu (5 layers)'),
    ('-ngl 7', 'discrete', 'emulated:0 (7 layers)+cpu (1 layer)'),
    ('-ngl 8', '', 'emulated:0'),
    ('-ngl auto', '', 'emulated:0'),
    ('--units cpu+emulated -ngl auto -b 3 -c 64', 'discrete bytes=24400000', 'emulated:0 (2 layers)+cpu (6 layers)'),
    ('-ngl auto -b 3 -c 64', 'discrete bytes=20500000', 'cpu'),
    ('-ngl auto', 'none', 'cpu'),
    ('-ngl 0', '', 'cpu'),
    ('--units cpu+emulated -ngl 0', '', 'cpu'),
    ('-ngl 3', 'none', 'cpu'),
    ('--preset offload -ngl 3', 'discrete', 'emulated:0 (3 layers)+emulated:0 (5 copied layers)'),
    ('-ngl auto --offload -b 3 -c 64', 'discrete bytes=26500000', 'emulated:0 (1 layer)+emulated:0 (7 copied layers)'),
    ('-ngl auto --offload -b 3 -c 64', 'discrete bytes=24700000', 'emulated:0 (8 copied layers)'),
    ('-ngl 8 --offload', 'discrete', 'emulated:0'),
    ('-ngl auto --offload', 'none', 'cpu'),
]

PRESETS = [
    (1, '--preset sequential --units emulated', ''),
    (1, f'--preset medusa --units emulated --heads {HEADS["medusa"]}', ''),
    (1, f'--preset dovetail --units cpu --draft-units emulated --heads {HEADS["dgf"]}', ''),
    (2, f'--preset dovetail --units cpu --draft-units emulated --heads {HEADS["dgf"]} --layer-split 1/1', 'discrete'),
    (1, f'--preset dovetail --units cpu --draft-units emulated -md {DRAFT}', ''),
    (1, f'--preset dovetail -ngl 3 --draft-units emulated --heads {HEADS["dgf"]}', 'discrete'),
    (1, f'--preset dovetail --units cpu+emulated -ngl auto --draft-units emulated -md {DRAFT}', ''),
    (1, f'--preset specexec -ngl 3 --draft-units emulated -md {DRAFT}', 'discrete'),
    (1, '--preset offload -ngl 2', 'discrete'),
    (2, '-ngl 2 --offload --layer-split 0.3+0.7', 'discrete waits=stream'),
    (2, f'-ngl 1 --offload -md {DRAFT} --layer-split 0.5,0.5 --strategy speculative -b 3', 'discrete'),
    (1, f'--preset duodecoding --units emulated --draft-units cpu -md {DRAFT}', ''),
    (2, f'--preset duodecoding --units emulated --draft-units cpu -md {DRAFT} --layer-split 1/1', ''),
    (2, f'--preset pipeinfer --units emulated -md {DRAFT} --layer-split 1/1', ''),
]
CORES = sorted(os.sched_getaffinity(0))
if len(CORES) > 1:
    APART = f'--units cpu:{CORES[0]} --draft-units cpu:{CORES[1]}'
    PRESETS += [(1, f'--preset dovetail {APART} --heads {HEADS["dgf"]}', ''),
                (2, f'--preset duodecoding {APART} -md {DRAFT} --layer-split 1/1', '')]

# Exit code, words of the error, ranks, flags, and settings of the device.
ERRORS = [
    (1, 'no such device', 1, '--units emulated:9', ''),
    (1, 'no such device', 1, '--units cpu+emulated', 'none'),
    (1, 'used by another rank', 2, '--units emulated:0', ''),
    (1, 'named twice', 1, '--units emulated:0+emulated:0', ''),
    (1, "'npu:0' is no unit", 1, '--units cpu+npu:0', ''),
    (1, 'at most -c', 1, '--units emulated -b 64', 'bytes=21000000'),
    (1, 'no context fits', 1, '--units emulated', 'bytes=1000000'),
    (1, 'fewer layers', 1, '--units emulated -b 3 -c 64', 'bytes=20000000'),
    (1, 'fewer layers', 1, '--units cpu+emulated -b 3 -c 64', 'discrete bytes=20000000'),
    (2, 'on emulated:0; lower -c', 1, f'--units cpu --draft-units emulated -md {DRAFT}', 'discrete bytes=1000000'),
    (1, 'at most -ngl 2 fits', 1, '-ngl 6 -b 3 -c 64', 'discrete bytes=19300000'),
    (1, 'name one device and cores', 1, '--units emulated -ngl 3', ''),
    (1, 'name one device and cores', 1, '--units cpu+emulated:0+emulated:1 -ngl 3', ''),
    (1, 'leave out the shares', 1, '--units cpu=0.5+emulated=0.5 -ngl 3', ''),
    (1, '-ngl must be', 1, '-ngl -1', ''),
    (1, 'leave out -ngl', 1, f'--preset ghidorah --units cpu+emulated -ngl 3 -md {DRAFT}', ''),
    (1, 'leave out -ngl', 1, f'--preset medusa -ngl 3 --heads {HEADS["medusa"]}', ''),
    (1, 'leave out -ngl', 1, '--preset sequential -ngl 3', ''),
    (1, 'with heads or with a draft', 1, f'--preset dovetail --units cpu --draft-units cpu -md {DRAFT} --heads {HEADS["dgf"]}', ''),
    (1, 'leave out -md, --heads and --mtp', 1, '--preset sequential --mtp', ''),
    (1, 'and what drafts there take', 1, f'-ngl 2 -b 3 -c 64 --draft-units emulated -md {DRAFT}', 'discrete bytes=19300000'),
    (1, 'what drafts there takes', 1, f'-ngl auto -b 3 -c 64 --draft-units emulated -md {DRAFT}', 'discrete bytes=1000000'),
    (1, '--attention-cut must be left out with -ngl', 1, '--units cpu+emulated -ngl 3 --attention-cut dynamic', ''),
    (1, 'named twice', 1, '--units emulated+emulated:0', ''),
    (1, 'say with -ngl how many stay', 1, '--offload', ''),
    (1, '--preset offload copies layers to a GPU', 1, '--preset offload --units cpu+emulated', ''),
    (1, 'leave out --no-repack', 1, '--offload -ngl 2 --no-repack', ''),
    (1, 'uses the memory of the host', 1, '--offload -ngl 2', ''),
    (1, '5 whole layers and copied layers take', 1, '--offload -ngl 5 -b 3 -c 64', 'discrete bytes=23000000'),
    (1, 'name one device and cores', 1, '--units emulated -ngl auto', ''),
    (1, 'leave out the shares', 1, '--units cpu=0.5+emulated=0.5 -ngl auto', ''),
    (1, '-ngl needs a value', 1, '-ngl', ''),
    (1, 'YAMATA_DEVICE=waits=never: unknown', 1, '--units emulated', 'waits=never'),
    (1, 'YAMATA_DEVICE=waits=never: unknown', 1, '', 'none waits=never'),
    (1, 'YAMATA_DEVICE=waits=never: unknown', 2, '-t 1 --layer-split 0.5,0.5', 'waits=never'),
    (2, 'cannot read ABSENT', 1, f'-md {DRAFT} --policy static-tree --tree ABSENT', ''),  # errors() knows where there is no file
    (3, 'device emulated:0: ', 1, '--units cpu+emulated', 'stream_fails_at=2000'),
    (3, 'device emulated:0: ', 1, '--units cpu+emulated', 'waits=stream stream_fails_at=2000'),
    (3, 'device emulated:', 2, '--units cpu+emulated --layer-split 0.3+0.7', 'waits=stream stream_fails_at=2000'),
    (3, 'device emulated:0: ', 1, '--units cpu+emulated -ngl 5', 'fails_at=700'),
    (3, 'device emulated:0: ', 1, '--units emulated', 'fails_at=500'),
    (3, 'device emulated:0: ', 1, '--units cpu+emulated', 'fails_at=700'),
    (3, 'device emulated:', 2, '--units cpu+emulated --layer-split 0.5,0.5', 'fails_at=700'),
]


def run(command, setting=''):
    return subprocess.run(command, capture_output=True, text=True, timeout=LONGEST_S, env=environment(setting))


def result(command, out, setting=''):
    out.unlink(missing_ok=True)
    done = run(command, setting)
    if done.returncode:
        raise SystemExit(f'exit {done.returncode}: {" ".join(command)}\n{done.stderr[-2000:]}')
    j = json.loads(out.read_text())
    return (j['token_ids'], j.get('logits_checksum')), [rank['device'] for rank in j['per_rank']]


def on_ranks(ranks, command):
    return [*(MPIRUN + ['-np', str(ranks)] if ranks > 1 else []), *command]


class Cases:
    def __init__(self, filter_):
        self.filter, self.wrong = filter_, 0
        self.step = 1 if filter_ or THOROUGH else 6

    def wants(self, name):
        return self.filter in name

    def say(self, right, name):
        print(f'{"ok  " if right else "FAIL"} {name}', flush=True)
        self.wrong += not right


def jobs(cases, plain, emulated, folder):
    out = pathlib.Path(folder, 'result.json')
    more = ['--logits-checksum', '--json', str(out)]
    expected = {}

    def alone(tokens):
        if tokens not in expected:
            expected[tokens] = result([plain, *RUN, '-n', tokens, '-t', '1', *more], out)[0]
        return expected[tokens]

    for ranks, flags, setting in (JOBS + PRESETS)[::cases.step]:
        name = f'{ranks} ranks {flags} {setting}'
        words = flags.split()
        tokens = words[words.index('-n') + 1] if '-n' in words else TOKENS
        if cases.wants(name):
            found, devices = result(on_ranks(ranks, [emulated, *RUN, *words, *more]), out, setting)
            named = 'emulated' in flags or '-ngl' in flags
            cases.say(found == alone(tokens) and any('emulated' in device for device in devices) == named, name)
    for flags, setting, computed_on in LAYERS[::cases.step]:
        name = f'{flags} {setting}: {computed_on}'
        if cases.wants(name):
            found, devices = result([emulated, *RUN, '-n', '8', *flags.split(), *more], out, setting)
            cases.say(found == alone('8') and devices == [computed_on], name)
    for ranks, flags, setting in UNREAD[::cases.step]:
        name = f'only the highest logit is read: {ranks} ranks {flags} {setting}'
        if cases.wants(name):
            found, devices = result(on_ranks(ranks, [emulated, *RUN, *flags.split(), '--json', str(out)]), out, setting)
            cases.say(found == (alone(TOKENS)[0], None) and any('emulated' in device for device in devices), name)
    name = 'a rank with a device and one without'
    if cases.wants(name):
        split = ['--layer-split', '0.5,0.5']
        command = [*MPIRUN, '-np', '1', emulated, *RUN, *split, *more, '--units', 'emulated', ':', '-np', '1', plain, *RUN, *split, *more,
                   '-t', '1']
        found, devices = result(command, out)
        cases.say(found == alone(TOKENS) and devices == ['emulated:0', 'cpu'], name)


def placed_by_speed(cases, plain, emulated, folder):
    """A rank that may get layers or the draft has a device for both. Here the files of the ranks decide that rank 1 drafts."""
    out = pathlib.Path(folder, 'result.json')
    more = ['--logits-checksum', '--json', str(out), '--units', 'emulated', '--draft-units', 'emulated']
    both = ('-m', TARGET, '-md', DRAFT)
    absent = str(pathlib.Path(folder, 'absent'))
    without_draft, without_target = ('-m', TARGET, '-md', absent), ('-m', absent, '-md', DRAFT)
    for what, files in (('rank 1 can also hold layers', (both, both, without_draft)),
                        ('rank 2 can also draft', (both, without_target, both)))[:2 if cases.step == 1 else 1]:
        name = f'drafters placed by speed, {what}'
        if cases.wants(name):
            ranks = [[':'] * (r > 0) + ['-np', '1', emulated, *RUN, *its, *more] for r, its in enumerate(files)]
            found, devices = result([*MPIRUN, *sum(ranks, [])], out)
            alone, _ = result([plain, *RUN, '-t', '1', '--logits-checksum', '--json', str(out)], out)
            cases.say(found == alone and devices == ['emulated:0', 'emulated:1', 'emulated:2'], name)


def planned(cases, emulated, folder):
    """plan and inspect know the units of a machine; the JSON of a job has the time of its phases and the memory of its device."""
    on_device = ['--units', 'cpu+emulated', '-ngl', 'auto', '--draft-units', 'emulated', '--heads', HEADS['dgf']]
    small = 'discrete bytes=48000000'
    name = 'inspect: layers that fit beside heads'
    if cases.wants(name):
        def gpu(*flags):
            shown = run([emulated, 'inspect', '-m', TARGET, '-c', '64', *flags], small).stdout
            found = re.findall(r'^ +GPU +layers +0-(\d+) ', shown, re.M)
            return int(found[0]) if found else -1
        alone, beside = gpu(*on_device[:4]), gpu(*on_device)
        shown = run([emulated, 'inspect', '-m', TARGET, '-c', '64', *on_device], small).stdout
        cases.say(0 <= beside < alone and len(re.findall(r'^  draft .*on emulated$', shown, re.M)) == 1, name)
    name = 'plan: the cost model of a machine'
    if cases.wants(name):
        out = pathlib.Path(folder, 'plan.json')
        done = run([emulated, 'plan', '-m', TARGET, '-t', '1', '-c', '64', *on_device, '--json', str(out)], small)
        steps = json.loads(out.read_text())['steps'] if done.returncode == 0 else []
        right = re.search(r'^\d of 8 layers on the device$', done.stdout, re.M) and 'offloading, all weights copied' in done.stdout
        cases.say(bool(right) and [step['guesses'] for step in steps] == [1, 3, 7, 15], name)
        if not right:
            print(done.stdout, done.stderr)
    for words, flags in (('for several machines', '--units cpu --ranks 3 --heads HEADS'), ('needs a draft', '--units cpu'),
                         ('leave out one of them', f'--units cpu --heads HEADS -md {DRAFT}'), ('add --units', '--bus 3')):
        name = f'plan is refused, "{words}": {flags}'
        if cases.wants(name):
            done = run([emulated, 'plan', '-m', TARGET, *flags.replace('HEADS', HEADS['dgf']).split()])
            cases.say(done.returncode == 1 and words in done.stderr and done.stderr.count('yamata: ') == 1, name)
    name = 'plan and inspect without a device: a warning, and cores compute all layers'
    if cases.wants(name):
        for command in (['plan', '-t', '1', '-md', DRAFT], ['inspect']):
            done = run([emulated, *command, '-m', TARGET, '-c', '64', '-ngl', 'auto'], 'none')
            right = done.returncode == 0 and done.stderr.count('-ngl auto: no device for rank 0 (') == done.stderr.count('warning') == 1
            cases.say(right and 'GPU  ' not in done.stdout and '8 of 8' not in done.stdout, f'{name}: {command[0]}')
            if not right:
                print(done.stdout, done.stderr)
    name = 'phases and peak memory'
    if cases.wants(name):
        out = pathlib.Path(folder, 'phases.json')
        its = ['--preset', 'dovetail', '-ngl', '2', '--draft-units', 'emulated', '--heads', HEADS['dgf'], '-n', '8', '--json', str(out)]
        done = run([emulated, *RUN, *its], 'discrete')
        j = json.loads(out.read_text()) if done.returncode == 0 else {}
        rank = j['per_rank'][0] if j else {}
        parts = ('verify_s', 'draft_s', 'sample_s', 'candidates_s', 'buffers_s', 'posterior_s')
        right = j and all(j[key] > 0 for key in parts) and j['transfer_s'] == 0
        # the layers and the heads are both there
        weights = 2 * 2 ** 20
        cases.say(bool(right) and j['device_peak_bytes'] == rank['device_peak_bytes'] > weights and 0 < rank['draft_s'] < rank['busy_s'] and
                  "of its device's memory" in done.stderr, name)
        done = run([emulated, *RUN, '-n', '4', '--units', 'cpu', '--json', str(out)])
        cases.say(json.loads(out.read_text())['device_peak_bytes'] == 0, f'{name}: none without a device')
        done = run([emulated, *RUN, '-n', '4', '-ngl', '5', '--preset', 'offload', '--json', str(out)], 'discrete')
        j = json.loads(out.read_text()) if done.returncode == 0 else {}
        rank = j['per_rank'][0] if j else {}
        runs, layer = (rank['runs'], rank['copied_bytes'] / rank['runs'] / 3) if j else (0, 0)
        right = runs == 4 and 2 ** 19 < layer < 2 ** 21 and 0 < rank['copy_wait_s'] == j['transfer_s'] < rank['busy_s']
        cases.say(right and 'MiB of weights to its device, and waited' in done.stderr, f'{name}: copied layers')


def kept_speeds(cases, emulated, folder):
    """The speed of a device with whole layers is kept like that of the cores: each start adds one to those that it confirms."""
    name = "a device's speed is kept"
    if not cases.wants(name):
        return
    cache = pathlib.Path(folder, 'cache')

    def speeds():
        done = run(on_ranks(2, ['env', f'XDG_CACHE_HOME={cache}', emulated, *RUN, '-n', '2', '-ngl', '2', '-t', '1']))
        lines = [line.split() for line in pathlib.Path(cache, 'yamata/measurements').read_text().splitlines()]
        lines = sorted(line for line in lines if re.search('emulated_[01]-one-layer.speed$', line[0]))
        words = [text for _, _, *text in lines]
        return done.returncode == 0 and len(words) == 2 and all(len(its) % 2 for its in words), words

    (right, first), (again, second) = speeds(), speeds()
    added = all(b[:3] == a if len(b) > 3 else b != a for a, b in zip(first, second))  # or, on a disturbed machine, replaced
    cases.say(right and again and all(len(its) == 3 for its in first) and added, name)


def errors(cases, plain, emulated, folder):
    for code, words, ranks, flags, setting in ERRORS:
        words, flags = (text.replace('ABSENT', str(pathlib.Path(folder, 'absent'))) for text in (words, flags))
        name = f'exit {code}, "{words}": {ranks} ranks {flags} {setting}'
        if not cases.wants(name):
            continue
        done = run(on_ranks(ranks, [emulated, *RUN, '-n', '24', *flags.split()]), setting)  # so many that each fault is reached
        lines = [line for line in done.stderr.splitlines() if line.startswith('yamata: ') and 'warning' not in line]
        right = done.returncode == code and len(lines) == 1 and words in lines[0]
        cases.say(right, name)
        if not right:
            print(done.returncode, done.stderr[-1000:])
    name = '-ngl on ranks without a device: one warning'
    if cases.wants(name):
        done = run(on_ranks(2, [emulated, *RUN, '-n', '4', '-ngl', '3', '-t', '1', '--layer-split', '0.5,0.5']), 'none')
        cases.say(done.returncode == 0 and done.stderr.count('no device for ranks 0 (') == 1 and done.stderr.count('warning') == 1, name)
    name = '-ngl auto on a device that no layer fits into: one warning'
    if cases.wants(name):
        done = run(on_ranks(2, [emulated, *RUN, '-n', '4', '-ngl', 'auto', '-t', '1', '-b', '3', '-c', '64']), 'discrete bytes=1000000')
        cases.say(done.returncode == 0 and done.stderr.count('no layer fits into the 0 MiB that the device of rank') ==
                  done.stderr.count('warning') == 2, name)
    done = run([plain, *RUN, '--units', 'cuda:0'])
    refused = done.returncode == 1 and done.stderr.count('yamata: ') == 1 and '--units cuda:0' in done.stderr
    cases.say(refused, 'no card: --units cuda:0 is refused')


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('plain')
    parser.add_argument('emulated')
    parser.add_argument('--filter', default='', help='only cases whose name has this')
    o = parser.parse_args()
    cases = Cases(o.filter)
    with tempfile.TemporaryDirectory() as folder:
        jobs(cases, o.plain, o.emulated, folder)
        placed_by_speed(cases, o.plain, o.emulated, folder)
        kept_speeds(cases, o.emulated, folder)
        planned(cases, o.emulated, folder)
        errors(cases, o.plain, o.emulated, folder)
    raise SystemExit(1 if cases.wrong else 0)


main()
