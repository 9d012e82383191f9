"""Whole jobs on the emulated device give the ids and logits of one plain rank, and what a device lacks is one line.

    devices_test.py YAMATA YAMATA_EMULATED
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TARGET, DRAFT = (str(ROOT / 'models' / f'tales-{name}-q8_0.gguf') for name in ('target', 'draft'))
RUN = ['run', '-m', TARGET, '-p', 'Once upon a time there was', '-n', '24', '--ignore-eos', '-t', '1']


def start(program, ranks, flags, **environment):
    launcher = ['mpirun', '--oversubscribe', '--bind-to', 'none', '-np', str(ranks)] if ranks > 1 else []
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT='1', OMPI_ALLOW_RUN_AS_ROOT_CONFIRM='1', **environment)
    return subprocess.run([*launcher, program, *RUN, *flags], capture_output=True, text=True, timeout=300, env=environment)


def result(program, folder, ranks, flags, **environment):
    out = pathlib.Path(folder, 'result.json')
    done = start(program, ranks, [*flags, '--logits-checksum', '--json', str(out)], **environment)
    if done.returncode:
        raise SystemExit(f'exit {done.returncode}: {ranks} ranks {" ".join(flags)}\n{done.stderr[-2000:]}')
    j = json.loads(out.read_text())
    return j['token_ids'], j['logits_checksum']


def refused(program, code, words, ranks=1, **environment):
    """Whether the program ends with the code and one line that has the words."""
    done = start(program, ranks, [], **environment)
    lines = [line for line in done.stderr.splitlines() if line.startswith('yamata: ')]
    return done.returncode == code and len(lines) == 1 and words in lines[0] or print(done.returncode, done.stderr[-1000:])


def main():
    plain, emulated = sys.argv[1:]
    jobs = [(1, [], {}), (1, ['-b', '3', '--cache-type-k', 'f16'], {'YAMATA_EMULATED_DEVICE': 'discrete'}), (2, ['--layer-split', '0.5,0.5'], {}),
            (2, ['-md', DRAFT, '--layer-split', '1/1'], {}), (1, ['-md', DRAFT, '--strategy', 'speculative'], {})]
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        expected = result(plain, folder, 1, [])
        for ranks, flags, environment in jobs:
            same = result(emulated, folder, ranks, flags, YAMATA_DEVICE='emulated', **environment) == expected
            print(f'{"ok  " if same else "FAIL"} {ranks} ranks {" ".join(flags)} {environment}', flush=True)
            wrong += not same
    errors = [(plain, 1, 'built without CUDA', 1, {'YAMATA_DEVICE': 'cuda:0'}), (emulated, 1, 'no such device', 1, {'YAMATA_DEVICE': 'emulated:9'}),
              (emulated, 1, 'used by another rank', 2, {'YAMATA_DEVICE': 'emulated:0'}),
              (emulated, 3, 'device emulated: ', 1, {'YAMATA_DEVICE': 'emulated', 'YAMATA_EMULATED_DEVICE': 'fails_at=500'}),
              (emulated, 2, 'no memory', 1, {'YAMATA_DEVICE': 'emulated', 'YAMATA_EMULATED_DEVICE': 'bytes=1000'})]
    for program, code, words, ranks, environment in errors:
        right = refused(program, code, words, ranks, **environment)
        print(f'{"ok  " if right else "FAIL"} exit {code}, "{words}": {environment}', flush=True)
        wrong += not right
    raise SystemExit(1 if wrong else 0)


main()
