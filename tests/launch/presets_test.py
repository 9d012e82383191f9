"""Presets on CPU cores and an emulated device, and on two groups of cores: each writes the text of one plain rank, and has the tokens per
pass of the target that the papers' formulas predict from the acceptance rates.

    presets_test.py YAMATA YAMATA_EMULATED [--filter WORD]

Acceptance rates are measured by `yamata acceptance` on the same texts, of trees of the preset's size. Trees of a fixed size are filled at
any cost, so that their tokens per pass are the same on every unit, and those of the table in docs/papers.md.
"""
import argparse
import heapq
import json
import os
import pathlib
import re
import subprocess
import tempfile

LONGEST_S = 600 * float(os.environ.get('YAMATA_PATIENCE', 1))  # for a job; a longer one counts as hanging
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TARGET, DRAFT = (str(ROOT / 'models' / f'tales-{name}-q8_0.gguf') for name in ('target', 'draft'))
HEADS = {name: ['--heads', str(ROOT / 'models' / f'tales-{name}.safetensors')] for name in ('dgf', 'medusa')}
PROMPTS = [json.loads(line)['turns'][0] for line in (ROOT / 'launch/experiments/tales.jsonl').read_text().splitlines()]
CORES = sorted(os.sched_getaffinity(0))
TOKENS = 96  # of each text: enough for stable means
DEVICE_TOKENS = 24  # for emulated devices, which are slow; every day, only what no other test has
THOROUGH = bool(os.environ.get('YAMATA_THOROUGH'))
DEVICE_PROMPTS = 2 if THOROUGH else 1

# Name, flags, most guesses of a run, levels of the tree, children of a node: EAGLE-2's tree as in Dovetail; Medusa's algorithm 1; a chain.
TREES = [('dovetail', HEADS['dgf'], 15, 8, 10), ('medusa', HEADS['medusa'], 63, 4, 32), ('speculative', ['-md', DRAFT], 4, 4, 1)]


def run(command, cache=''):
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT='1', OMPI_ALLOW_RUN_AS_ROOT_CONFIRM='1',
                       **({'XDG_CACHE_HOME': cache} if cache else {}))
    done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST_S, env=environment)
    if done.returncode:
        raise SystemExit(f'exit {done.returncode}: {" ".join(command)}\n{done.stderr[-2000:]}')
    return done


def tree_tokens(accuracies, guesses, depth, children):
    """Tokens per pass with the best tree of this size: 1, plus for each guess the product of the acceptance rates on its path (Ghidorah's
    ARCA)."""
    levels = [level[:children] for level in accuracies[:depth]]
    tokens, frontier = 1.0, [(-p, 0) for p in levels[0]]
    heapq.heapify(frontier)
    for _ in range(guesses):
        if not frontier:
            break
        p, level = heapq.heappop(frontier)
        tokens -= p
        for q in levels[level + 1] if level + 1 < len(levels) else []:
            heapq.heappush(frontier, (p * q, level + 1))
    return tokens


def duo_tokens(first, others, length):
    """Tokens per pass of DuoDecoding's loop. After a rejected token, the next one is computed alone. With probability `first` the result
    begins a sequence of `length` tokens, whose others are all verified in the next pass; each is right with probability `others`."""
    whole = others**(length - 1)
    verifying = first / (1 + first * (1 - whole))  # share of passes that verify a sequence
    return 1 + verifying * others * (1 - whole) / (1 - others)


class Presets:
    def __init__(self, plain, emulated, folder, filter_):
        self.plain, self.emulated, self.filter, self.cache = plain, emulated, filter_, folder
        self.out = pathlib.Path(folder, 'result.json')
        self.prompts = pathlib.Path(folder, 'prompts.jsonl')
        self.rates_file, self.tree = str(pathlib.Path(folder, 'rates.json')), str(pathlib.Path(folder, 'tree.json'))
        self.wrong, self.texts, self.known = 0, {}, {}

    def say(self, right, name):
        print(f'{"ok  " if right else "FAIL"} {name}', flush=True)
        self.wrong += not right

    def result(self, program, prompt, tokens, flags, ranks=1):
        launcher = ['mpirun', '--oversubscribe', '--bind-to', 'none', '-np', str(ranks)] if ranks > 1 else []
        run([*launcher, program, 'run', '-m', TARGET, '-p', prompt, '-n', str(tokens), '--ignore-eos', '--logits-checksum', '--json',
             str(self.out), *flags], self.cache)
        return json.loads(self.out.read_text())

    def alone(self, prompt, tokens):
        if (prompt, tokens) not in self.texts:
            j = self.result(self.plain, prompt, tokens, ['-t', '1'])
            self.texts[prompt, tokens] = (j['token_ids'], j['logits_checksum'])
        return self.texts[prompt, tokens]

    def play(self, program, prompts, tokens, flags, ranks=1):
        """Whether all texts equal those of one plain rank; per text the numbers of tokens and of passes."""
        same, passes = True, []
        for prompt in prompts:
            j = self.result(program, prompt, tokens, flags, ranks)
            same &= (j['token_ids'], j['logits_checksum']) == self.alone(prompt, tokens)
            passes.append((j['generated_tokens'] - 1, j['target_evaluations'] - 1))  # the first of both is the prompt's
        return same, passes

    def rates(self, who, width):
        """[level][choice]: acceptance rate if all guesses before it were right; and the tokens per pass with the best tree of `width` rows
        (a power of two), by replay."""
        if tuple(who) not in self.known:
            self.record(str(self.out), who)
            self.known[tuple(who)] = json.loads(self.out.read_text())['sources'][0]
        source = self.known[tuple(who)]
        return source['accuracies'], source['tokens_per_run'].get(str(width))

    def record(self, rates, flags):
        self.prompts.write_text(''.join(json.dumps({'turns': [prompt]}) + '\n' for prompt in PROMPTS))
        run([self.plain, 'acceptance', '-m', TARGET, '-f', str(self.prompts), '-n', str(TOKENS), '--ignore-eos', '--no-lookup', '-t', '1',
             '--json', rates, *flags], self.cache)


def per_pass(passes):
    return sum(tokens for tokens, _ in passes) / sum(runs for _, runs in passes)


def shape(guesses, depth, children):
    """Flags of trees that are drafted whole, so that rates do not depend on speeds."""
    return ['--policy', 'dynamic-tree', '--draft', str(guesses), '--tree-depth', str(depth), '--tree-children', str(children)]


def near(found, expected, share):
    return abs(found / expected - 1) < share


def documented():
    """The rows of the table "Compared with the papers' formulas" in docs/papers.md: by preset, its numbers."""
    table = (ROOT / 'docs/papers.md').read_text().split("\n## Compared with the papers' formulas\n")[1].split('\n## ')[0]
    rows = [line.split('|')[1:-1] for line in table.splitlines() if line.startswith('| `')]
    return {re.match(' `([a-z]+)', name)[1]: [cell.strip() for cell in cells] for name, *cells in rows}


def two_digits(*numbers):
    return [f'{number:.2f}' if number else '' for number in numbers]


def trees(presets):
    """A tree of fixed size is drafted at every step, at any cost: so the tokens per pass are equal on every unit, and equal to the
    formula's. The formula assumes that levels are independent, which is not quite true. The replay uses the text's own ranks, without this
    assumption, but for the best tree of one fixed shape; a tree that is chosen at every step is at least as good."""
    for name, who, guesses, depth, children in TREES:
        if presets.filter not in name:
            continue
        apart = name == 'dovetail'
        units = ['--units', f'cpu:{CORES[0]}', *(['--draft-units', f'cpu:{CORES[-1]}'] if apart else [])]
        flags = ['--preset', name, *who]
        same, passes = presets.play(presets.plain, PROMPTS, TOKENS, [*flags, *units])
        accuracies, replay = presets.rates([*who, *shape(guesses, depth, children)], guesses + 1)
        formula, found = tree_tokens(accuracies, guesses, depth, children), per_pass(passes)
        presets.say(same, f'{name} on cores: the text of one plain rank')
        presets.say(near(found, formula, .15), f'{name} on cores: {found:.3f} tokens per pass, {formula:.3f} by the formula')
        whole = per_pass([(tokens + 1, runs + 1) for tokens, runs in passes])  # as in the replay
        if children > 1:  # a chain may be worse than the best shape
            presets.say(whole > .97 * replay,
                        f'{name} on cores: {whole:.3f} tokens per pass, {replay:.3f} by replay of the best shape, the prompt counted')
            row = two_digits(found, formula, whole, replay)
            presets.say(documented()[name] == row, f'{name} in docs/papers.md: {row}')
        if apart:
            on_two = [*units, '--layer-split', '1/1']
            presets.say(presets.play(presets.plain, PROMPTS[:4], TOKENS, [*flags, *on_two], 2) == (True, passes[:4]),
                        f'{name} on two ranks: the same')
        if not apart and not THOROUGH:
            continue
        few = presets.play(presets.plain, PROMPTS[:DEVICE_PROMPTS], DEVICE_TOKENS, [*flags, *units])
        device = ['--units', 'cpu', '--draft-units', 'emulated'] if apart else ['--units', 'emulated']
        presets.say(presets.play(presets.emulated, PROMPTS[:DEVICE_PROMPTS], DEVICE_TOKENS, [*flags, *device]) == few,
                    f'{name} on a device: the same')


def duodecoding(presets):
    """With fixed numbers, the tokens per pass do not depend on the speed of the target and the draft, which wait for each other."""
    who = ['-md', DRAFT]
    accuracies, _ = presets.rates([*who, *shape(16, 8, 2)], 16)
    fixed = ['--sequences', '2', '--budget', '16']
    formula = duo_tokens(sum(accuracies[0][:2]), accuracies[1][0], 8)
    for ranks, split in ((1, []), (2, ['--layer-split', '1/1']))[:2 if THOROUGH else 1]:
        name = f'duodecoding, {ranks} rank{"s" * (ranks > 1)}'
        if presets.filter not in name:
            continue
        flags = ['--preset', 'duodecoding', *who, *split]
        device = ['--units', 'emulated', '--draft-units', f'cpu:{CORES[-1]}']
        cores = ['--units', f'cpu:{CORES[0]}', '--draft-units', f'cpu:{CORES[-1]}']
        short = (PROMPTS[:4], 2 * DEVICE_TOKENS) if THOROUGH else (PROMPTS[:2], DEVICE_TOKENS)
        on_device = presets.play(presets.emulated, *short, [*flags, *device, *fixed], ranks)
        presets.say(on_device == presets.play(presets.plain, *short, [*flags, *cores, *fixed], ranks) and on_device[0],
                    f'{name}, on a device: the text of one plain rank, and the passes of cores')
        same, passes = presets.play(presets.emulated, PROMPTS[:1], DEVICE_TOKENS, [*flags, *device], ranks)
        presets.say(same and per_pass(passes) >= 1, f'{name}, numbers by measurement: the text of one plain rank')
        if len(CORES) > 1:
            same, passes = presets.play(presets.plain, PROMPTS, TOKENS, [*flags, *cores, *fixed], ranks)
            presets.say(same, f'{name}, on cores: the text of one plain rank')
            presets.say(near(per_pass(passes), formula, .1),
                        f'{name}, on cores: {per_pass(passes):.3f} tokens per pass, {formula:.3f} by the formula')
            row = two_digits(per_pass(passes), formula, None, None)
            presets.say(documented()['duodecoding'] == row, f'{name} in docs/papers.md: {row}')


def shared(presets):
    """Ghidorah and its baselines: trees are found for the units, whose shares are measured. With one tree, all have the same passes."""
    who = TREES[1][1]
    if presets.filter not in 'ghidorah medusa-em' or len(CORES) < 2:
        return
    cores = '+'.join(f'cpu:{core}' for core in CORES[:2])
    presets.record(presets.rates_file, [*who, '--policy', 'dynamic-tree', '--draft', '63'])
    said = run([presets.plain, 'profile', '-m', TARGET, '--units', cores, *who, '--tree-from', presets.rates_file, '--tree-out',
                presets.tree, '-r', '3', '--json', str(presets.out)], presets.cache)
    works = [work for work in json.loads(presets.out.read_text())['works'] if work['kind'] == 'attention']
    unequal = sum(len(set(work['isolated_s'])) == 2 for work in works)  # times are whole nanoseconds, and may be equal by chance
    presets.say(len(works) > 6 and 2 * unequal > len(works), 'profile: the time of attention on each unit')
    chosen = json.loads(pathlib.Path(presets.tree).read_text())
    presets.say([choice['width'] for choice in chosen['choices']] == [1, 2, 4, 8, 16, 32, 64] and not said.stderr,
                f'profile: trees of all widths, {chosen["width"]} is the fastest')
    tokens = next(choice['tokens'] for choice in chosen['choices'] if choice['width'] == chosen['width'])
    tree = [*who, '--tree', presets.tree]
    same, passes = presets.play(presets.plain, PROMPTS, TOKENS, ['--preset', 'medusa', '--units', f'cpu:{CORES[0]}', *tree])
    whole = per_pass([(tokens + 1, runs + 1) for tokens, runs in passes])  # as in the replay
    presets.say(same and near(whole, tokens, .03), f'medusa with that tree: {whole:.3f} tokens per pass, {tokens:.3f} by replay')
    other = next(choice for choice in chosen['choices'] if choice['width'] == (8 if chosen['width'] != 8 else 16))
    same, others = presets.play(presets.plain, PROMPTS, TOKENS, ['--preset', 'medusa', '--units', f'cpu:{CORES[0]}', *tree, '--draft',
                                                                 str(other['width'] - 1)])
    whole = per_pass([(tokens + 1, runs + 1) for tokens, runs in others])
    presets.say(same and near(whole, other['tokens'], .03) and others != passes,
                f'medusa with the tree of {other["width"]} rows in that file: {whole:.3f} tokens per pass, {other["tokens"]:.3f} by replay')
    for name in ('medusa-em', 'ghidorah'):
        found = presets.play(presets.plain, PROMPTS[:2], TOKENS, ['--preset', name, '--units', cores, *tree])
        presets.say(found == (True, passes[:2]), f'{name} on {cores}: the text of one plain rank, and the passes of medusa')
    other = pathlib.Path(presets.cache, 'other')
    run([presets.plain, 'profile', '-m', TARGET, '--units', cores, '--attention-cut', 'dynamic'], str(other))
    presets.cache, before = str(other), presets.cache
    presets.say(presets.play(presets.plain, PROMPTS[:1], TOKENS, ['--preset', 'ghidorah', '--units', cores, *tree]) == (True, passes[:1]),
                'ghidorah with the moving boundary that was measured, without a flag')
    presets.cache = before
    if not THOROUGH:
        return
    run([presets.emulated, 'profile', '-m', TARGET, '--units', 'emulated+cpu'], presets.cache)
    few = presets.play(presets.plain, PROMPTS[:1], DEVICE_TOKENS, ['--preset', 'medusa', '--units', f'cpu:{CORES[0]}', *tree])
    for name in ('medusa-em', 'ghidorah'):
        found = presets.play(presets.emulated, PROMPTS[:1], DEVICE_TOKENS, ['--preset', name, '--units', 'emulated+cpu', *tree])
        presets.say(found == few, f'{name} on a device and cores: the text of one plain rank, and the passes of medusa')


def without_trees(presets):
    """One token per pass, and chains, whose number depends on the time that each takes."""
    core, other = f'cpu:{CORES[0]}', f'cpu:{CORES[-1]}'
    few = (PROMPTS[:DEVICE_PROMPTS], DEVICE_TOKENS)
    for program, units, texts in ((presets.plain, core, (PROMPTS[:2], TOKENS)), (presets.emulated, 'emulated', few))[:2 if THOROUGH else 1]:
        name = f'sequential on {units}'
        if presets.filter in name:
            same, passes = presets.play(program, *texts, ['--preset', 'sequential', '--units', units])
            presets.say(same and per_pass(passes) == 1, f'{name}: the text of one plain rank, one token per pass')
        name = f'prompt-lookup on {units}'
        if presets.filter in name:
            same, passes = presets.play(program, *texts, ['--preset', 'prompt-lookup', '--units', units])
            presets.say(same and per_pass(passes) >= 1, f'{name}: the text of one plain rank, {per_pass(passes):.3f} tokens per pass')
        name = f'pipeinfer on {units} and {other}'
        if presets.filter in name:
            same, passes = presets.play(program, *texts, ['--preset', 'pipeinfer', '-md', DRAFT, '--units', units, '--draft-units', other,
                                                          '--layer-split', '1/1'], 2)
            presets.say(same and per_pass(passes) >= 1, f'{name}: the text of one plain rank')


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n\n')[0])
    parser.add_argument('plain')
    parser.add_argument('emulated')
    parser.add_argument('--filter', default='', help='only presets whose name has this')
    o = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        presets = Presets(o.plain, o.emulated, folder, o.filter)
        trees(presets)
        duodecoding(presets)
        shared(presets)
        without_trees(presets)
    raise SystemExit(1 if presets.wrong else 0)


main()
