"""The program on the machines: this machine's, where that runs; for another architecture, that of a Debian package which is made here."""
import gzip
import pathlib
import re
import shutil
import subprocess
import tempfile

from common import places

from . import check, remote
from .facts import Fault
from .hostfile import PROGRAM

LIMIT_S = 600
ARCHITECTURES = {'x86_64': 'amd64', 'aarch64': 'arm64'}  # Debian's names of those for which launch/package makes programs
# To another name first, so that the program is there as a whole or not at all.
INSTALL = '''set -e
folder="$HOME/%s/$(uname -m)"
mkdir -p "$folder"
new="$folder/.new.$$"
trap 'rm -f "$new"' EXIT
gzip -dc > "$new"
[ "$(cksum < "$new")" = '%s' ]
chmod 755 "$new"
"$new" --version > /dev/null
rm -f "$folder/yamata.from"
mv "$new" "$folder/yamata"
echo %s > "$folder/yamata.from"
'''
BY_HAND = ('in a clone of the same commit there: launch/install-packages && cmake --preset release -DYAMATA_TESTS=OFF && cmake --build '
           '--preset release --target yamata && install -D build/yamata ~/' + PROGRAM + '/$(uname -m)/yamata')


class Program:
    """This machine's, without what only debuggers need."""

    def __init__(self, path, identity):
        self.identity = identity
        with tempfile.TemporaryDirectory(prefix='yamata-program-') as folder:
            stripped = pathlib.Path(folder) / 'yamata'
            if not shutil.which('strip') or subprocess.run(['strip', '-o', stripped, path], capture_output=True).returncode:
                stripped = path
            self.sum = subprocess.run(['cksum'], stdin=open(stripped, 'rb'), capture_output=True, text=True).stdout.strip()
            self.packed = gzip.compress(stripped.read_bytes(), 6)


class Programs:
    """Those for the machines of a cluster. `head`: the facts of this one."""

    def __init__(self, head):
        self.head, self.identity = head, check.identity()
        self.by_machine = {head['machine']: Program(check.program(), self.identity)}

    def prepare(self, machines, say):
        """Compiles for other architectures, where that is possible: a quarter of an hour each, if no package is there yet."""
        others = {its['machine'] for its in machines if is_made_here(its, self.head)}
        with tempfile.TemporaryDirectory(prefix='yamata-program-') as folder:
            for machine in sorted(others):
                if path := program_for(machine, pathlib.Path(folder), say):
                    self.by_machine[machine] = Program(path, self.identity)

    def find(self, its):
        """None: it needs one of its own, which is made there."""
        return self.by_machine.get(its['machine']) if its['release'] == self.head['release'] else None


def is_made_here(its, head):
    """Whether `launch/package` makes its program: of another architecture, with the same libraries."""
    return its['machine'] != head['machine'] and its['machine'] in ARCHITECTURES and its['release'] == head['release']


def program_for(machine, folder, say):
    """That of the newest package for an architecture, which is made if it is not of this version; None: it cannot be made."""
    architecture, folder = ARCHITECTURES[machine], folder / machine
    found = packed_program(architecture, folder)
    if found is None and (places.ROOT / '.git').exists():
        say(f'making the program for {machine}: launch/package deb {architecture}')
        subprocess.run([places.LAUNCH / 'package', 'deb', architecture], stdout=subprocess.DEVNULL)
        found = packed_program(architecture, folder)
    return found


def packed_program(architecture, folder):
    """That of the newest package, unpacked into a folder; None: it has another version than this machine's, or there is none."""
    packages = sorted((places.build_folder() / 'packages').glob(f'yamata_*_{architecture}.deb'), key=lambda path: path.stat().st_mtime)
    if not packages:
        return None
    subprocess.run(['dpkg-deb', '-x', packages[-1], folder], check=True)
    version = subprocess.run([check.program(), '--version'], capture_output=True, text=True).stdout
    found, commit = folder / 'usr' / 'bin' / 'yamata', re.search(r'[0-9a-f]{7,}', version)
    return found if found.is_file() and (not commit or commit[0].encode() in found.read_bytes()) else None


def install(programs, facts, config):
    """On one machine; the fault if that does not work."""
    host, head, program = facts.host, programs.head, programs.find(facts)
    if program is None:
        return Fault('program', host.name, f'it is {facts["machine"]} with {facts["release"]}, this machine {head["machine"]} with '
                     f'{head["release"]}: it needs a program of its own', BY_HAND)
    script = INSTALL % (PROGRAM, program.sum, program.identity)
    answer = remote.run(host, config, script, LIMIT_S, program.packed)
    if answer.code == 0:
        return None
    said = [line for line in answer.err.splitlines() if line.strip()] or [f'exit code {answer.code}']
    return Fault('program', host.name, f'the program was not installed ({said[0].strip()[:200]})', 'mend that, and run setup again')
