"""The environment of a command that may be mpirun, which root has to allow."""
import os

ALLOWED = {'OMPI_ALLOW_RUN_AS_ROOT': '1', 'OMPI_ALLOW_RUN_AS_ROOT_CONFIRM': '1'}


def environment(**more):
    """That of this process, with `more` variables."""
    return os.environ | (ALLOWED if os.getuid() == 0 else {}) | more
