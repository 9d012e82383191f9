"""Reads config.json of a head."""
import json

from measuring.problem import Problem


def read(folder):
    """Its entries. Raises Problem (2) if it is missing or damaged."""
    path = folder / 'config.json'
    try:
        config = json.loads(path.read_text())
    except OSError as error:
        raise Problem(f'{path} cannot be read ({error.strerror}); give the folder of a head', 2) from None
    except ValueError:
        raise Problem(f'{path} is damaged: it is no JSON; copy or write it again', 2) from None
    if not isinstance(config, dict):
        raise Problem(f'{path} is not the configuration of a head; copy or write it again', 2)
    return config
