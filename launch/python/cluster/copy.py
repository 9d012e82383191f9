"""launch/cluster copy: files of this machine on all machines."""
import hashlib
import os
import pathlib
import shlex
import time

from common.problem import Problem
from common.progress import Progress

from . import chain, check, network, remote
from .facts import Fault

PIECE_BYTES = 1 << 20
# It makes the folder, and says whether the file can be written there; of a file of this size, also its sum. A link is followed.
PREPARE = '''target=%s size=%d
case $target in /*) ;; *) target="$HOME/$target" ;; esac
[ ! -L "$target" ] || target=$(readlink -m "$target")
folder=$(dirname "$target")
ends() { printf '%%s\\t%%s\\t%%s\\n' "$1" "$2" "$3"; exit 0; }
for tool in perl sha256sum; do command -v $tool > /dev/null || ends missing $tool; done
[ ! -d "$target" ] || ends folder "$target"
if [ -f "$target" ] && [ "$(wc -c < "$target")" -eq $size ]; then echo "sum $(sha256sum < "$target")"; fi
export LC_ALL=C
error=$(mkdir -p "$folder" 2>&1) || ends unmade "$folder" "${error##*: }"
probe="$folder/.yamata-probe.$$"
error=$({ : > "$probe"; } 2>&1) || ends closed "$folder" "${error##*: }"
rm -f "$probe"
free=$(df -Pk "$folder" | awk 'NR == 2 { print $4 }')
[ "$free" -gt $((size / 1024)) ] || ends full "$folder" "$free"
ends ready
'''


def mib(count):
    return f'{count / (1 << 20):.1f} MiB'


def machines(hosts):
    return check.counted(len(hosts), 'machine')


def target_of(path):
    """The same file on another machine: below the home there if it is below the home here."""
    for home in pathlib.Path.home(), pathlib.Path.home().resolve():
        if path.is_relative_to(home):
            return str(path.relative_to(home))
    return str(path)


class Copy:
    """Of one file. `addresses`: {machine: address in the network that connects all}; empty: there is none."""

    def __init__(self, path, config, addresses):
        self.path, self.config, self.addresses = pathlib.Path(os.path.abspath(path)), config, addresses
        if not self.path.is_file():
            raise Problem(f'{path} {"is a folder" if self.path.is_dir() else "does not exist"}; name files')
        try:
            with open(self.path, 'rb'):
                self.size = self.path.stat().st_size
        except OSError as error:
            raise Problem(f'{path} cannot be read ({error.strerror}); check its permissions') from None
        self.target, self.faults, self.sum = target_of(self.path), [], None
        self.sent, self.same, self.progress = [], [], Progress(1)

    def run(self, hosts):
        """Returns whether all have it. Machines that a lost one keeps from getting it get it from another chain."""
        begin = time.monotonic()
        while hosts:
            links = self.send(self.prepare(hosts))
            self.sent += [link.host for link in links if link.is_kept]
            self.faults += [self.fault(link.host, link.why, 'mend that, and copy again: what is there is left out')
                            for link in links if link.why]
            hosts = [link.host for link in links if not link.is_kept and not link.why]
            if len(hosts) == len(links):
                self.faults += [self.fault(host, 'another copy writes it now', 'wait for that') for host in hosts]
                break
        self.progress.clear()
        self.report(time.monotonic() - begin)
        return not self.faults

    def report(self, seconds):
        for fault in self.faults:
            self.progress.line(fault.line())
        told = [f'copied to {machines(self.sent)} in {seconds:.1f} s'] if self.sent else []
        told += [f'there already on {machines(self.same)}'] if self.same else []
        told += [f'not on {machines(self.faults)}'] if self.faults else []
        self.progress.line(f'{self.path.name} ({mib(self.size)}): {", ".join(told) or "on no other machine"}')

    def fault(self, host, why, remedy):
        return Fault('copy', host.name, f'it has not got {self.path.name}: {why}', remedy)

    def prepare(self, hosts):
        """Those that need the file, and can take it."""
        script = PREPARE % (shlex.quote(self.target), self.size)
        ready = []
        answers = remote.each(hosts, lambda host: remote.run(host, self.config, script, None, options=remote.NOTICES_LOSS))
        for host, answer in zip(hosts, answers):
            lines = answer.out.splitlines()
            if any(line.split()[:2] == ['sum', self.own_sum()] for line in lines if line.startswith('sum ')):
                self.same.append(host)
            elif lines and lines[-1] == 'ready\t\t' and answer.code == 0:
                ready.append(host)
            else:
                self.faults.append(self.refusal(host, answer))
        return ready

    def own_sum(self):
        if self.sum is None:
            digest = hashlib.sha256()
            with open(self.path, 'rb') as file:
                while piece := file.read(PIECE_BYTES):
                    digest.update(piece)
            self.sum = digest.hexdigest()
        return self.sum

    def refusal(self, host, answer):
        words = (answer.out.splitlines() or [''])[-1].split('\t')
        if answer.code or len(words) != 3:
            return self.fault(host, (answer.err.strip().splitlines() or ['it says nothing'])[-1][:150], 'launch/cluster check says more')
        state, what, more = words
        why, remedy = {
            'missing': (f'it lacks {what}', f'install {what} there'),
            'folder': (f'{what} is a folder there', 'remove it, or give the file another name'),
            'unmade': (f'{what} cannot be made ({more})', f'make it there: sudo install -d -o {host.user} {shlex.quote(what)}'),
            'closed': (f'{what} cannot be written ({more})', f'let {host.user} write there, or put the file into your home'),
            'full': (f'{what} has {mib(int(more or 0) << 10)} left' if state == 'full' else '', 'free some space there')}[state]
        return self.fault(host, why, remedy)

    def send(self, hosts):
        """The links of a chain over them, which has ended; or of one to each, if they cannot reach each other."""
        if not hosts:
            return []
        try:
            if not self.addresses:
                raise chain.Closed('no network connects all machines')
            links = [chain.Link(host, self.addresses[host.name]) for host in hosts]
            self.chain(links)
        except chain.Closed as closed:
            self.addresses = {}
            self.progress.line(f'{closed}: {self.path.name} goes over ssh to one machine after the other; launch/cluster check says more')
            links = [chain.Link(host, None) for host in hosts]
            for number, link in enumerate(links):
                self.chain([link], number, len(links))
        return links

    def chain(self, links, before=0, count=None):
        """`before`: so many of all `count` have it."""
        count = count or len(links)

        def show(come):
            share = (before + come / (self.size or 1)) / count
            self.progress.show_share(share, f'{share:.0%} of {self.path.name} ({mib(self.size)}) on {count} machines')
        made = chain.Chain(self.path, self.target, links, self.config, show)
        made.run()
        if made.sender and made.sender.why:
            raise Problem(f'{self.path} cannot be sent ({made.sender.why}); check the file and its disk')


def addresses_of(cluster):
    """{machine: its address} in the network that `check` has found, or else in one with an address of each."""
    found = network.common(cluster.named())
    known = [addresses for its, addresses in found if str(its) == cluster.settings.network]
    return (known or [addresses for _, addresses in found] or [{}])[0]


def copy(path, files):
    """Returns the exit code: 1 if a machine has not got all."""
    cluster = check.Cluster(path)
    cluster.ask()
    silent = [its.fault for its in cluster.facts if its.fault]
    for fault in silent:
        Progress(1).line(fault.line())
    copies = [Copy(file, cluster.config, addresses_of(cluster)) for file in files]
    done = [its.run([its.host for its in cluster.named() if not its.host.is_here]) for its in copies]
    return 0 if all(done) and not silent else 1
