"""What the machines of a cluster say of themselves, and what is wrong with one of them."""
import pathlib
import re

from . import hostfile, remote

PROBE = pathlib.Path(__file__).with_name('probe.sh')
LIMIT_S = 10
FIRST_LINE = 'yamata-probe=1'
LEAST_HOME_KIB, LEAST_TEMPORARY_KIB, LEAST_SHARED_KIB = 64 << 10, 16 << 10, 16 << 10
LEAST_FILES, LEAST_PROCESSES = 256, 128


class Fault:
    """One line: what is wrong with which machine, and the remedy. `kind`: a word by which `setup` knows it. `stops`: it has to go."""

    def __init__(self, kind, machine, what, remedy, stops=True):
        self.kind, self.machine, self.what, self.remedy, self.stops = kind, machine, what, remedy, stops

    def line(self):
        return f'{self.machine}: {self.what}; {self.remedy}'


class Facts:
    """Of one machine. `values`: what its probe said; empty, with `fault` set: nothing."""

    def __init__(self, host, answer):
        self.host, self.values, self.fault = host, {}, None
        lines = answer.out.splitlines()
        self.noise = answer.code == 0 and FIRST_LINE in lines and lines[0] != FIRST_LINE
        if answer.code == 0 and FIRST_LINE in lines and lines[-1] == 'end=yes':
            self.values = dict(line.split('=', 1) for line in lines[lines.index(FIRST_LINE) + 1:] if '=' in line)
        else:
            self.fault = unreachable(host, answer)

    def __getitem__(self, name):
        return self.values.get(name, '')

    def number(self, name):
        """None: it is unknown, or there is no limit."""
        return int(self[name]) if self[name].isdigit() else None


def ask(hosts, config):
    """The facts of each, asked at once."""
    script = PROBE.read_text()
    return remote.each(hosts, lambda host: Facts(host, remote.run(host, config, script, LIMIT_S)), 'machines asked')


SAID_BY_SSH = [  # (kind, what it says, what that means, the remedy)
    ('name', 'Could not resolve hostname', 'its name {address} is not known here',
     'write its address into the host file: # ssh {user}@ADDRESS'),
    ('changed key', 'REMOTE HOST IDENTIFICATION HAS CHANGED', 'its host key is not the one known here: it was installed anew, or another '
     'machine answers', "ask its owner; if that is right: ssh-keygen -R '{known}'"),
    ('unknown key', 'Host key verification failed', 'its host key is not known here', 'launch/cluster setup shows and adds it'),
    ('unknown key', 'host key is known', 'its host key is not known here', 'launch/cluster setup shows and adds it'),
    ('key', 'Permission denied', 'ssh asks {user} for a password there', 'launch/cluster setup adds your key'),
    ('refused', 'Connection refused', 'nothing answers on port {port} of {address}',
     'start sshd there (sudo apt-get install openssh-server), or name its port in the host file'),
    ('down', 'timed out', '{address} does not answer',
     'start the machine, check its cable, and the firewall for port {port}, or take it out of the host file'),
    ('down', 'No route to host', '{address} cannot be reached',
     'start the machine, check its cable and address, or take it out of the host file'),
    ('down', 'Network is unreachable', '{address} cannot be reached', 'check the network of this machine'),
]


def known_as(host):
    """As known_hosts names it."""
    return host.address if host.port in (None, 22) else f'[{host.address}]:{host.port}'


def unreachable(host, answer):
    words = {'address': host.address, 'user': host.user or 'you', 'port': host.port or 22, 'known': known_as(host)}
    for kind, said, what, remedy in SAID_BY_SSH:
        if answer.code not in (0, None) and said in answer.err:
            return Fault(kind, host.name, what.format(**words), remedy.format(**words))
    if answer.code is None and not answer.out:
        return Fault('down', host.name, f'it has not answered within {LIMIT_S} s', f'try: ssh {host.named_for_ssh()} true')
    if answer.code == 255:
        last = (answer.err.strip().splitlines() or ['it says nothing'])[-1]
        return Fault('ssh', host.name, f'ssh failed ({last[:150]})', f'try: ssh {host.named_for_ssh()} true')
    return Fault('shell', host.name, 'its shell ends, or waits, before a command',
                 'look for exit, exec or a question in ~/.bashrc there, and write it behind: case $- in *i*) ;; *) return;; esac')


def kib(count):
    return f'{count / 1024:.0f} MiB'


def faults_of(its, head, program):
    """Of one machine that answers. `head`: the facts of this machine; `program`: the version that `setup` would install."""
    return [Fault(kind, its.host.name, *rest) for kind, *rest in (*software(its, head, program), *room(its), *limits(its))]


def software(its, head, program):
    if its.noise:
        yield 'noise', 'its shell says something before each command', 'end ~/.bashrc there early when not interactive', False
    if not its['orted'] or not its['openmpi']:
        yield 'packages', 'Open MPI is not installed', 'launch/cluster setup installs it'
    elif head['openmpi'] and its['openmpi'] != head['openmpi']:
        yield ('version', f'it has Open MPI {its["openmpi"]}, this machine {head["openmpi"]}',
               'install the same release of the system on both')
    elif differing := [name for name in ('libopenmpi3', 'libpmix2') if package(its, name) != package(head, name)]:
        name = differing[0]
        if not package(its, name):
            yield 'packages', f'its package {name} is missing', 'launch/cluster setup installs it'
            return
        yield ('version', f'its package {name} is {package(its, name) or "missing"}, here {package(head, name) or "missing"}',
               'sudo apt-get update && sudo apt-get install openmpi-bin on both')
    if re.search('cannot execute|Exec format', its['runs']):
        yield 'program', f'the program there is for another kind of machine than {its["machine"]}', 'launch/cluster setup replaces it'
    elif 'shared libraries' in its['runs']:
        library = re.search(r'shared libraries: (\S+?):', its['runs'])
        yield 'packages', f'the program lacks {library[1] if library else "a library"}', 'launch/cluster setup installs it'
    elif not its['runs'].startswith('yamata '):
        yield 'program', 'the program is not installed', 'launch/cluster setup installs it'
    elif its['program'] != program and (its['program'] or its['machine'] == head['machine']):  # else it was made there, by hand
        yield 'program', 'it has another version of the program than this machine', 'launch/cluster setup replaces it'


def package(its, name):
    found = dict(pair.split('=', 1) for pair in its['packages'].split() if '=' in pair)
    return found.get(name, '').partition('+b')[0]


def room(its):
    home, temporary, shared = (its.number(f'{name}_free_kib') for name in ('home', 'temporary', 'shared'))
    if home is not None and home < LEAST_HOME_KIB:
        yield 'disk', f'the disk of {its["home"]} has only {kib(home)} left', f'free some space there ({kib(LEAST_HOME_KIB)} at least)'
    elif not its['home_writable']:
        yield 'home', f'{its["home"]} cannot be written', 'mount it writable, or use another account'
    if not its['temporary_writable']:
        yield ('temporary', f'the temporary folder {its["temporary"]} cannot be written',
               f'sudo chmod 1777 {its["temporary"]}, or set TMPDIR')
    elif temporary is not None and temporary < LEAST_TEMPORARY_KIB:
        yield ('temporary', f'{its["temporary"]} has only {kib(temporary)} left',
               f'free some space there ({kib(LEAST_TEMPORARY_KIB)} at least)')
    if not its['shared_writable']:
        yield 'shared', '/dev/shm cannot be written', 'sudo mount -t tmpfs -o mode=1777 tmpfs /dev/shm'
    elif shared is not None and shared < LEAST_SHARED_KIB:
        yield 'shared', f'/dev/shm has only {kib(shared)} left', 'remove old files in it, or in a container raise --shm-size'


def limits(its):
    for name, least, flag, what in (('files', LEAST_FILES, '-n', 'open files'), ('processes', LEAST_PROCESSES, '-u', 'processes')):
        value = its.number(name)
        if value is not None and value < least:
            yield 'limit', f'only {value} {what} are allowed', f'raise ulimit {flag} in /etc/security/limits.conf there'
    for name, flag, what in ('virtual', '-v', 'memory'), ('file_size', '-f', 'file size'):
        if its[name].isdigit():
            yield 'limit', f'its {what} is limited (ulimit {flag} {its[name]})', f'remove the limit there: ulimit {flag} unlimited', False
    if its['tcp'] == 'bbr':
        yield 'tcp', 'TCP uses bbr, which delays short messages', 'sudo sysctl net.ipv4.tcp_congestion_control=cubic there', False


def names(hosts):
    """Faults of names: mpirun cuts them at the first dot, and a machine must not be called by a loopback address."""
    found, first = [], {}
    for host in hosts:
        label = host.name if re.fullmatch(r'[0-9.]+|.*:.*', host.name) else host.name.partition('.')[0]
        if label in first:
            found.append(Fault('label', host.name, f'mpirun takes it for {first[label]}: it cuts names at the first dot',
                               'write addresses, or other names, into the host file'))
        first.setdefault(label, host.name)
        if host.is_here and not hostfile.numbers_of(host.name) and label != hostfile.own_label():
            found.append(Fault('name', host.name, 'it is this machine, which mpirun does not know by that name',
                               f'write {hostfile.own_label()} into the host file in its place'))
        numbers = hostfile.numbers_of(host.address)
        if not host.is_here and numbers and all(number.startswith('127.') for number in numbers) or numbers == ['127.0.1.1'] and \
                host.given_address:
            found.append(Fault('loopback', host.name, f'its name {host.address} means this machine ({numbers[0]}) here',
                               f'correct /etc/hosts here, or write: {host.name} slots=1  # ssh {host.user}@ADDRESS'))
    return found
