"""Keys: the person's own, those by which machines are known, and the person's on the machines."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from common.problem import Problem

from .facts import Fault

SCAN_S = 5
ADD = 'umask 077; mkdir -p .ssh; grep -qxF "$(cat > .ssh/.new; cat .ssh/.new)" .ssh/authorized_keys 2>/dev/null || ' \
      'cat .ssh/.new >> .ssh/authorized_keys; rm -f .ssh/.new'


def folder():
    return pathlib.Path.home() / '.ssh'


def public_key():
    """The text of the person's first one; None: there is none."""
    for name in 'id_ed25519', 'id_ecdsa', 'id_rsa':
        path = folder() / f'{name}.pub'
        if path.is_file() and path.with_suffix('').is_file():
            return path.read_text()
    agent = subprocess.run(['ssh-add', '-L'], capture_output=True, text=True) if shutil.which('ssh-add') else None
    return agent.stdout.splitlines()[0] + '\n' if agent and agent.returncode == 0 and agent.stdout else None


def make_key():
    """Raises Problem."""
    folder().mkdir(mode=0o700, exist_ok=True)
    done = subprocess.run(['ssh-keygen', '-q', '-t', 'ed25519', '-N', '', '-f', str(folder() / 'id_ed25519')], capture_output=True,
                          text=True)
    if done.returncode:
        raise Problem(f'no key could be made ({done.stderr.strip()[-150:]}); check {folder()}')


def scan(host):
    """Lines for known_hosts, that of the kind which people compare first."""
    done = subprocess.run(['ssh-keyscan', '-T', str(SCAN_S), '-p', str(host.port), '-t', 'ed25519,ecdsa,rsa', host.address],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True)
    lines = [line for line in done.stdout.splitlines() if line and not line.startswith('#')]
    return sorted(lines, key=lambda line: 'ssh-ed25519' not in line)


def fingerprint(line):
    with tempfile.NamedTemporaryFile('w') as file:
        file.write(line + '\n')
        file.flush()
        said = subprocess.run(['ssh-keygen', '-l', '-f', file.name], capture_output=True, text=True).stdout.split()
    return f'{said[1]} {said[-1]}' if len(said) > 2 else 'unreadable'


def know(lines):
    """Adds them to known_hosts."""
    folder().mkdir(mode=0o700, exist_ok=True)
    with open(folder() / 'known_hosts', 'a') as file:
        file.write(''.join(f'{line}\n' for line in lines))


def has_terminal():
    try:
        os.close(os.open('/dev/tty', os.O_RDWR))
        return sys.stdin.isatty()
    except OSError:
        return False


def authorize(host, config, key):
    """Adds the person's key on a machine, whose password ssh asks for at the terminal; the fault if that does not work."""
    by_hand = f'ssh-copy-id {host.named_for_ssh()}'
    if not has_terminal():
        return Fault('key', host.name, f'{host.user} needs a password there, and there is no terminal to ask for it', f'run: {by_hand}')
    print(f'{host.name}: the password of {host.user} there, to add your key', file=sys.stderr)
    done = subprocess.run(['ssh', '-F', str(config), '-o', 'BatchMode=no', '-o', 'NumberOfPasswordPrompts=2', host.name, ADD],
                          input=key.encode())
    if done.returncode == 0:
        return None
    return Fault('key', host.name, f'your key could not be added for {host.user}', f'if that is the right user, run: {by_hand}')
