"""The output folder of launch/train-heads, and whether an earlier training wrote what is there. Needs no PyTorch."""
import pathlib
import zipfile

from common.files import refuse_foreign
from common.problem import Problem, refuse_overwriting

from .shards import shards_of

FILES = ('model.safetensors', 'config.json', 'README.md')
CHECKPOINT = 'checkpoint.pt'
CARD = rb'Made by\n\n    launch/train-heads '  # in README.md
REMEDY = 'choose another folder with -o'


def is_checkpoint(path):
    """Whether launch/train-heads wrote this checkpoint, as far as a reader without PyTorch can tell."""
    try:
        with zipfile.ZipFile(path) as archive:
            return any(b'since_best' in archive.read(name) for name in archive.namelist() if name.endswith('/data.pkl'))
    except (OSError, zipfile.BadZipFile):
        return False


def check(options):
    """Raises Problem if training would replace a file that it reads, or one that no earlier training wrote."""
    out, held, beginning = pathlib.Path(options.out), options.held_out, getattr(options, 'from')
    read = [shard for path in [*options.features, *([held] if isinstance(held, str) else [])] for shard in shards_of(path)]
    read += [options.model, *(pathlib.Path(beginning) / name for name in FILES if beginning)]
    trained = {shard.resolve() for path in options.features for shard in shards_of(path)}
    if isinstance(held, str) and (both := [shard for shard in shards_of(held) if shard.resolve() in trained]):
        raise Problem(f'--held-out: {both[0]} is also one of -f; name a file with other texts, or a share such as 0.1')
    refuse_overwriting(read, [out / name for name in (*FILES, CHECKPOINT)], REMEDY)
    refuse_foreign(out / 'README.md', CARD, 'a model card of train-heads', REMEDY)
    there = [name for name in FILES if (out / name).exists()]
    if there and 'README.md' not in there and not is_checkpoint(out / CHECKPOINT):
        raise Problem(f'{out} has {" and ".join(there)}, which train-heads did not write, so nothing is replaced; {REMEDY}')
