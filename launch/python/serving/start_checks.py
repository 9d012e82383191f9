"""What is checked before a model is loaded. Each function raises Problem."""
import os
import pathlib
import shutil
import socket
import stat

from cluster import slurm
from common import places
from common.files import reading
from common.problem import Problem

from . import machines as its
from .security import is_address, is_loopback

LAUNCHERS = {'OMPI_COMM_WORLD_SIZE': 'mpirun', 'PMI_RANK': 'mpirun', 'PMIX_RANK': 'mpirun', 'SLURM_STEP_ID': 'srun'}


def refuse_launchers(environment):
    """mpirun and srun start ranks; this starts mpirun itself."""
    for name, launcher in LAUNCHERS.items():
        if name in environment and environment[name] not in slurm.SHELLS:
            raise Problem(f'{launcher} has started this; start it alone, and give it --hostfile or --ranks')


def program(parallel, hostfile=None):
    """The path of yamata. `parallel`: mpirun is needed, too, on the machines of `hostfile` if there is one."""
    path = places.program()
    if not (path.is_file() and os.access(path, os.X_OK)):
        raise Problem(f'{path} is not a program; build it (cmake --build --preset release)')
    if parallel and not shutil.which('mpirun'):
        raise Problem(f'mpirun is not installed; launch/{f"cluster setup {hostfile}" if hostfile else "install-packages"} installs it')
    return path


def require_file(path, what):
    if not os.path.isfile(path):
        raise Problem(f'{path} does not exist or is no file; name {what}', 2)
    with reading(path, 'check its permissions', 1), open(path, 'rb'):
        pass


def identity(path):
    """Of a model's file: it changes with it."""
    its = os.stat(path)
    return f'{its.st_size}-{its.st_mtime_ns}'


def machines(path):
    """Those of a host file, or of the Slurm job."""
    if slurm.is_meant(path):
        text = ''.join(f'{name}\n' for name in slurm.nodes())
    else:
        require_file(path, 'a host file')
        with reading(path, 'check its permissions', 1):
            text = pathlib.Path(path).read_text(errors='replace')
    found = its.read(text)
    if not found:
        raise Problem(f'{path} names no machine; write a name per line')
    return found


def keys(path):
    """Of the file; none without one."""
    if path is None:
        return []
    require_file(path, 'a file with keys')
    if os.stat(path).st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise Problem(f'{path}: others can read the keys; run: chmod 600 {path}')
    with reading(path, 'check its permissions', 1):
        found = [line.strip() for line in pathlib.Path(path).read_text(errors='replace').splitlines() if line.strip()]
    if not found:
        raise Problem(f'{path} has no key; write one into it, for example with: openssl rand -hex 24')
    if not all(key.isascii() and key.isprintable() for key in found):
        raise Problem(f'{path}: a key has characters that no header can have; use letters and digits')
    return found


def template(path):
    """The text of a template's file; None without one."""
    if path is None:
        return None
    require_file(path, 'a Jinja template')
    with reading(path, 'check its permissions', 1):
        try:
            return pathlib.Path(path).read_text()
        except UnicodeDecodeError:
            raise Problem(f'{path} is not UTF-8; name a Jinja template') from None


def listener(host, port, keys_given):
    """A socket that listens there."""
    if not keys_given and not is_loopback(host):
        raise Problem(f'--host {host} lets other machines in; give --api-key-file too')
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except (OSError, UnicodeError) as error:
        raise Problem(f"--host {host} is no address of this machine ({getattr(error, 'strerror', None) or error})") from None
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind(address)
        made.listen(512)
    except OSError as error:
        made.close()
        raise Problem(f'port {port} of {host} cannot be used ({error.strerror}); choose another with --port') from None
    made.setblocking(False)
    return made


def bound_names(host, allowed):
    return [*allowed, *([] if is_address(host) else [host])]
