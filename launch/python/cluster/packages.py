"""Debian packages for machines that may have no internet: this machine downloads what each of them lacks, and copies it."""
import os
import pathlib
import re
import subprocess
import tempfile

from . import remote
from .facts import Fault

NEEDED = ['openmpi-bin', 'libhwloc15', 'libnuma1', 'libfmt9', 'libpcre2-8-0']  # of Debian 12
LIMIT_S = 900
INSTALL = r'''set -e
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
tar -x -C "$folder"
as_root="sudo -n"
[ "$(id -u)" = 0 ] && as_root=
# An installation that was interrupted is completed first, or still runs.
$as_root env DEBIAN_FRONTEND=noninteractive LC_ALL=C sh -c 'dpkg --configure -a > /dev/null 2>&1
  [ -e "$1" ] || shift
  exec apt-get install -f -y -qq --no-install-recommends \
    -o DPkg::Lock::Timeout=300 -o APT::Sandbox::User=root -o Dpkg::Options::=--force-confold "$@"
' sh "$folder"/*.deb >&2
'''
OVER_THERE = '''as_root="sudo -n"; [ "$(id -u)" = 0 ] && as_root=
$as_root env DEBIAN_FRONTEND=noninteractive LC_ALL=C sh -c '
  apt-get update -qq && apt-get install -y -qq --no-install-recommends "$@"' sh '''


def by_hand(host):
    where = '' if host.is_here else f'ssh -t {host.named_for_ssh()} '
    return f'{where}sudo apt-get install -y --no-install-recommends {" ".join(NEEDED)}'


def install(facts, config):
    """On one machine; the fault if that does not work."""
    host = facts.host
    if not facts['apt']:
        return Fault('packages', host.name, f'it has no apt-get ({facts["release"]})',
                     'install Open MPI, hwloc, libnuma, fmt and pcre2 there')
    if not facts['sudo']:
        return Fault('packages', host.name, f'{facts["user"]} may not become root there without a password', f'run: {by_hand(host)}')
    with tempfile.TemporaryDirectory(prefix='yamata-packages-') as folder:
        same = facts['machine'] == os.uname().machine  # this machine's apt knows the packages of its own architecture
        archive = download(host, config, pathlib.Path(folder)) if same else None
    if archive is not None:
        answer = remote.run(host, config, INSTALL, LIMIT_S, archive)
    else:
        answer = remote.run(host, config, OVER_THERE + ' '.join(NEEDED) + '\n', LIMIT_S)
    if answer.code == 0:
        return None
    return Fault('packages', host.name, f'its packages were not installed ({cause(answer)})', f'run: {by_hand(host)}')


def cause(answer):
    """The line that says why."""
    if answer.code is None:
        return f'not done within {LIMIT_S} s'
    said = [line.strip() for line in answer.err.splitlines() if line.strip()]
    telling = [line for line in said if re.search(r'No space left|^E: |rror', line)]
    return (telling or said or [f'exit code {answer.code}'])[0][:200]


def download(host, config, folder):
    """A tar archive of the packages that a machine lacks, which this machine downloads; None: it cannot."""
    status = remote.run(host, config, 'cat /var/lib/dpkg/status', 60)
    if status.code or not status.out:
        return None
    (folder / 'status').write_text(status.out)
    archives = folder / 'archives'
    (archives / 'partial').mkdir(parents=True)
    options = {'Dir::State::status': folder / 'status', 'Dir::Cache::archives': archives, 'Dir::Cache::pkgcache': '',
               'Dir::Cache::srcpkgcache': '', 'Debug::NoLocking': 'true'}
    words = [word for name, value in options.items() for word in ('-o', f'{name}={value}')]
    done = subprocess.run(['apt-get', 'install', '-f', '-y', '-qq', '--no-install-recommends', '--download-only', *words, *NEEDED],
                          stdin=subprocess.DEVNULL, capture_output=True)
    files = sorted(archives.glob('*.deb'))
    if done.returncode:
        return None
    return subprocess.run(['tar', '-c', '-C', archives, '-T', '/dev/null', *(path.name for path in files)], capture_output=True,
                          check=True).stdout
