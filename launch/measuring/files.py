"""Files of results, which are either complete or the older ones."""
import os
import pathlib

from .problem import Problem


def write_whole(path, data, remedy='free some space, or choose another folder with --out'):
    """Replaces the file in one step: after a crash, it is either the old one or the new one. Raises Problem (2) if it cannot be written."""
    path = pathlib.Path(path)
    temporary = path.with_name(path.name + '.new')
    try:
        with open(temporary, 'wb') as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise Problem(f'{path} cannot be written ({error.strerror}); {remedy}', 2) from None
