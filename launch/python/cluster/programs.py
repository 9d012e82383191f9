"""The program on the machines: this machine's, where that runs."""
import gzip
import pathlib
import shutil
import subprocess
import tempfile

from . import remote
from .facts import Fault
from .hostfile import PROGRAM

LIMIT_S = 600
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


def install(program, facts, head, config):
    """On one machine; the fault if that does not work."""
    host = facts.host
    if (facts['machine'], facts['release']) != (head['machine'], head['release']):
        return Fault('program', host.name, f'it is {facts["machine"]} with {facts["release"]}, this machine {head["machine"]} with '
                     f'{head["release"]}: it needs a program of its own', BY_HAND)
    script = INSTALL % (PROGRAM, program.sum, program.identity)
    answer = remote.run(host, config, script, LIMIT_S, program.packed)
    if answer.code == 0:
        return None
    said = [line for line in answer.err.splitlines() if line.strip()] or [f'exit code {answer.code}']
    return Fault('program', host.name, f'the program was not installed ({said[0].strip()[:200]})', 'mend that, and run setup again')
