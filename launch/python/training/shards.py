"""The names of the files of yamata features."""
import itertools
import pathlib


def shards_of(path):
    """The file, and the files that continue it: F.safetensors, F-00002.safetensors, ... A file behind a gap is of another writing."""
    path = pathlib.Path(path)
    if not path.name:  # a folder
        return [path]
    further = (path.with_name(f'{path.stem}-{number:05}{path.suffix}') for number in itertools.count(2))
    return [path, *itertools.takewhile(pathlib.Path.exists, further)]
