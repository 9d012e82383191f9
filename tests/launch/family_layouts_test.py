"""Whole jobs with every family's small models: every layout gives the ids and logits of one plain rank. Layouts: three ranks, two units, a
group of two, guesses in flight.

    family_layouts_test.py YAMATA WRITE_TINY_MODEL [--all] [--filter WORD] [--emulated YAMATA_EMULATED]

Variants (in the everyday suite some of them) are quantized to Q4_K_M or Q8_0 alternately, and run with guesses on three ranks, two of which
share layers, and on two units. With --all, each variant runs with both types and in every layout. Variants with an MTP layer also guess
with it, on one to three ranks. Thorough tests add layouts whose ranks fetch their weights from rank 0. With --emulated, only the MTP
layers run, with the heads, the model, or both on an emulated device.
"""
import argparse
import concurrent.futures
import itertools
import json
import os
import pathlib
import shutil
import subprocess
import tempfile

THOROUGH = bool(os.environ.get('YAMATA_THOROUGH'))
KINDS = ('Q4_K_M', 'Q8_0')
LONGEST_S = 300 * float(os.environ.get('YAMATA_PATIENCE', 1))  # for a job; a longer one counts as hanging
CORES = sorted(os.sched_getaffinity(0))
WORDS = [chr(0x4E00 + 260 + number * 37 % 250) for number in range(30)]  # tokens of the models' vocabulary
SAMPLING = '--temp 2 --top-p 1 --min-p 0'  # some models would always repeat their most probable token
MPIRUN = ['mpirun', '--oversubscribe', '--bind-to', 'none', '-np']
RUN = ['run', '--ignore-eos', '-b', '16', '--logits-checksum']

# Name, ranks and flags. For layouts that guess from suffixes, the store contains the text itself.
LAYOUTS = [('guesses', 3, '-t 1 --layer-split 0.5,0.3+0.2 --strategy pipeinfer')]
if len(CORES) > 1:
    LAYOUTS.append(('2 units', 1, f'--units cpu:{CORES[0]}=0.4+cpu:{CORES[1]} --strategy iterative'))
MORE_LAYOUTS = [
    ('3 ranks', 3, '-t 1 --layer-split 0.4,0.3,0.3 --strategy iterative'),
    ('a group of 2', 2, '-t 1 --layer-split 0.35+0.65 --strategy iterative'),
    ('guesses of 3 stages', 3, '-t 1 --layer-split 0.3,0.3,0.4 --strategy pipeinfer'),
]
# Only rank 0 has the file.
FETCHED_LAYOUTS = [
    ('fetched', 3, '-t 1 --layer-split 0.5,0.3+0.2 --strategy pipeinfer'),
    ('fetched, in memory', 3, '-t 1 --layer-split 0.4,0.3,0.3 --strategy iterative --fetch memory'),
]
# With guesses of the MTP layer. A tree of fixed size is filled at any cost.
TREE = '-t 1 --policy dynamic-tree'
MTP_LAYOUTS = [
    ('1 rank', 1, f'{TREE} --strategy speculative'),
    ('2 stages', 2, f'{TREE} --layer-split 0.5,0.5 --strategy pipeinfer'),
    ('a rank of its own', 3, f'{TREE} --layer-split 0.4,0.6/1 --strategy speculative'),
]
MORE_MTP_LAYOUTS = [
    ('1 rank, best-first', 1, '-t 1 --strategy pipeinfer'),
    ('chains', 2, '-t 1 --layer-split 0.5,0.5 --strategy pipeinfer --policy chain'),
    ('a group of 2', 2, f'{TREE} --layer-split 0.35+0.65 --strategy speculative'),
    ('3 stages', 3, f'{TREE} --layer-split 0.3,0.3,0.4 --strategy pipeinfer'),
    ('a rank of its own, pipelined', 3, f'{TREE} --layer-split 0.4,0.6/1 --strategy pipeinfer'),
]
FETCHED_MTP_LAYOUTS = [
    ('fetched', 2, f'{TREE} --layer-split 0.5,0.5 --strategy pipeinfer'),
    ('fetched, a rank of its own', 3, f'{TREE} --layer-split 0.4,0.6/1 --strategy speculative'),
]
# On an emulated device.
DEVICE_MTP_LAYOUTS = [
    ('heads on a device', 1, f'{TREE} --strategy speculative --units cpu --draft-units emulated'),
    ('all on a device', 1, '--policy dynamic-tree --strategy speculative --units emulated'),
    ('a device that shares layers', 1, f'{TREE} --strategy speculative --units cpu+emulated'),
    ('a device that has layers', 1, f'{TREE} --strategy speculative -ngl 1'),
    ('a rank of its own on a device', 3, f'{TREE} --layer-split 0.4,0.6/1 --strategy speculative --units cpu --draft-units emulated'),
    ('dovetail', 1, '-t 1 --preset dovetail --units cpu --draft-units emulated'),
    ('medusa', 1, '-t 1 --preset medusa'),
]


def call(command):
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT='1', OMPI_ALLOW_RUN_AS_ROOT_CONFIRM='1')
    done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST_S, env=environment)
    if done.returncode:
        raise RuntimeError(f'exit {done.returncode}: {" ".join(map(str, command))}\n{done.stderr[-2000:]}')
    return done.stdout


class Variant:
    """A model of a variant with a quantized type, in a folder of its own."""

    def __init__(self, o, variant, kind, folder):
        self.program, self.name, self.folder = o.emulated or o.program, f'{variant} {kind}', pathlib.Path(folder)
        self.model = self.folder / 'model.gguf'
        short = o.emulated and not THOROUGH  # emulated devices are slow
        self.text = ['-p', ' '.join((2 if short else 4) * WORDS), '-n', '32' if short else '64']
        plain = self.folder / 'plain.gguf'
        # rows consist of whole blocks; otherwise only some tensors would have that type
        wide = variant + '-wide' if kind == 'Q4_K_M' else variant
        call([o.writer, wide, 'F32', plain])
        call([self.program, 'quantize', plain, self.model, kind])
        plain.unlink()

    def result(self, ranks, flags, fetched=False):
        out = self.folder / 'result.json'
        out.unlink(missing_ok=True)
        command = [self.program, *RUN, *self.text, *flags.split(), '--json', out, '-m']
        if fetched:
            whole = [*MPIRUN, '1', *command, self.model]
            for rank in range(1, ranks):
                cache = ['--weights-cache', self.folder / 'kept' / str(rank)]
                whole += [':', '-np', '1', *command, self.folder / 'nowhere/model.gguf', *cache]
            call(whole)
        else:
            call([*([*MPIRUN, str(ranks)] if ranks > 1 else []), *command, self.model])
        j = json.loads(out.read_text())
        if fetched and not all(rank['fetched_bytes'] for rank in j['per_rank'][1:]):
            raise RuntimeError(f'{flags}: a rank fetched nothing')
        return (j['token_ids'], j['logits_checksum']), j['accepted']

    def wrong(self, layouts, sampling, guessing, must_accept):
        """The errors found. With `must_accept` in the flags, some guesses must be accepted, unless they may arrive too late."""
        plain, _ = self.result(1, f'-t 1 --strategy iterative {sampling}')
        wrong = [] if len(set(plain[0])) > 4 else [f'a text that says nothing of bits: {plain[0]}']
        for name, ranks, flags in layouts:
            all_flags = f'{flags} {sampling} {"" if "iterative" in flags else guessing}'
            found, accepted = self.result(ranks, all_flags, name.startswith('fetched'))
            shutil.rmtree(self.folder / 'kept', ignore_errors=True)
            if found != plain:
                wrong.append(f'{name}: other bits')
            if must_accept in flags and '/' not in flags and accepted == 0:
                wrong.append(f'{name}: none was accepted')
        return wrong

    def wrong_of_texts(self, layouts):
        """The errors found with guesses from the text itself, which is in a store."""
        store = f'--suffix-store {self.folder / "texts"}'
        self.result(1, f'-t 1 --strategy speculative {SAMPLING} {store}')
        return self.wrong(layouts, SAMPLING, store, 'pipeinfer')


def check(o, variant, kind):
    with tempfile.TemporaryDirectory() as folder:
        try:
            model = Variant(o, variant, kind, folder)
            if 'nextn' in variant:
                accepts = 'nothing' if variant.endswith('-own') else TREE  # its random output matrix has nothing in common with the model's
                device = DEVICE_MTP_LAYOUTS if THOROUGH else DEVICE_MTP_LAYOUTS[KINDS.index(kind)::2]  # every layout with one variant
                layouts = device if o.emulated else MTP_LAYOUTS + (MORE_MTP_LAYOUTS if o.all else []) + FETCHED_MTP_LAYOUTS * THOROUGH
                wrong = model.wrong(layouts, '--temp 0.7', '--mtp --no-lookup', accepts)
            else:
                layouts = LAYOUTS + (MORE_LAYOUTS if o.all else []) + FETCHED_LAYOUTS * THOROUGH
                wrong = model.wrong_of_texts(layouts)
        except RuntimeError as error:
            wrong = [str(error)]
    print(f'{"FAIL" if wrong else "ok  "} {variant} {kind} {"; ".join(wrong)}', flush=True)
    return not wrong


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('program')
    parser.add_argument('writer')
    parser.add_argument('--all', action='store_true', help='both types of every variant')
    parser.add_argument('--filter', default='', help='only variants whose name has this')
    parser.add_argument('--emulated', help='the program with emulated devices: only layers that predict further tokens, on them')
    o = parser.parse_args()
    variants, nextn = (call([o.writer, flag]).split() for flag in ('--list', '--list-nextn'))
    if not o.filter and not THOROUGH:  # families_test has every variant every day
        variants, nextn = variants[::4], nextn[1::4] if o.emulated else nextn
    variants = ([] if o.emulated else variants) + nextn
    cases = list(itertools.product(variants, KINDS)) if o.all else list(zip(variants, itertools.cycle(KINDS)))
    cases = [case for case in cases if o.filter in case[0]]
    with concurrent.futures.ThreadPoolExecutor(1 if o.emulated else max(1, min(2, len(CORES)))) as pool:
        right = list(pool.map(lambda case: check(o, *case), cases))
    raise SystemExit(0 if right and all(right) else 1)


main()
