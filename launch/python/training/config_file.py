"""The files of a head's folder, and its config.json."""
import json

from common.files import reading
from common.problem import Problem


def require_files(folder, names, remedy):
    """Raises Problem (2) naming those of the files that the folder lacks."""
    missing = [name for name in names if not (folder / name).exists()]
    if missing:
        raise Problem(f'{folder} has no {" and no ".join(missing)}; {remedy}', 2)


def read(folder):
    """Its entries. Raises Problem (2) if it is missing or damaged."""
    path = folder / 'config.json'
    try:
        with reading(path, 'give the folder of a head'):
            config = json.loads(path.read_text())
    except ValueError:
        raise Problem(f'{path} is damaged: it is no JSON; copy or write it again', 2) from None
    if not isinstance(config, dict):
        raise Problem(f'{path} is not the configuration of a head; copy or write it again', 2)
    return config
