"""The machines of a host file that mpirun reads, and the configuration of ssh and mpirun that is kept beside it."""
import getpass
import pathlib
import random
import re
import shlex
import socket
import subprocess

from common.files import reading
from common.problem import Problem

SUFFIX = '.ssh'  # of the file beside the host file
USAGE = 'such as: attic slots=1  # ssh -p 2222 bob@192.168.1.7'
NETWORK, PREFIX, SAID = '# network: ', '# program: ', '# host file: '
CONNECT_S = 5
FIRST_PORT, LAST_PORT, FIRST_DAEMON_PORT = 10000, 11099, 11000
PORTS_OF_A_DAEMON = 3  # so that one is free, though others may have some of them
PROGRAM = '.local/lib/yamata'  # below a home: a folder for each kind of machine, with the program


class Host:
    """A machine. `address` is what ssh connects to: a name or number. `is_here`: this machine; `by_srun`: entered by Slurm, not ssh."""

    def __init__(self, name, address=None, user=None, port=None):
        self.name, self.given_address, self.user, self.port = name, address, user, port
        self.address, self.is_here, self.by_srun = address or name, False, False
        self.said = name  # in the host file

    def entry(self):
        """Its part of a configuration of ssh."""
        lines = [f'Host {self.name}'] + [f'  {key} {value}' for key, value in
                                         (('HostName', self.given_address), ('User', self.user), ('Port', self.port)) if value]
        return '\n'.join(lines) + '\n'

    def named_for_ssh(self):
        """What a person would write behind `ssh`."""
        port = f'-p {self.port} ' if self.port and str(self.port) != '22' else ''
        return f'{port}{self.user}@{self.address}' if self.user else f'{port}{self.address}'


def parse(line, where):
    """The host of a line; None: it has none. Raises Problem."""
    words, _, comment = line.partition('#')
    if not words.strip():
        return None
    host = Host(words.split()[0])
    if re.search(r'[^A-Za-z0-9._:-]', host.name) or host.name.startswith('-'):
        raise Problem(f"{where}: '{host.name}' is no name of a machine; write one a line, {USAGE}")
    for word in words.split()[1:]:
        if not re.fullmatch(r'(slots|max_slots|max-slots)=\d+', word):
            raise Problem(f"{where}: '{word}' is not understood; write slots=1, {USAGE}")
    said = comment.split()
    if said[:1] != ['ssh']:
        if re.fullmatch(r'(-p \d+ )?\S+@\S+( -p \d+)?|-p \d+( \S+)?', ' '.join(said)):
            raise Problem(f"{where}: begin with 'ssh' behind '#', {USAGE}")
        return host
    host.said = ' '.join([host.name, *said])
    said = said[1:]
    while said:
        word = said.pop(0)
        if word == '-p' and said and said[0].isdigit():
            host.port = int(said.pop(0))
        elif word.startswith('-') or host.given_address:
            raise Problem(f"{where}: '{word}' is not understood behind '# ssh'; write -p PORT USER@ADDRESS, {USAGE}")
        else:
            if port := re.fullmatch(r'([^:]+):(\d+)', word):
                raise Problem(f"{where}: write '-p {port[2]} {port[1]}' in place of '{word}'")
            user, _, host.given_address = word.rpartition('@')
            host.user, host.address = user or None, host.given_address
    return host


def read(path):
    """The hosts of a file, each once. Raises Problem."""
    path = pathlib.Path(path)
    if not path.is_file():
        raise Problem(f'{path} does not exist or is no file; write one machine a line, {USAGE}')
    with reading(path, 'check its permissions', 1):
        data = path.read_bytes()
        if b'\r' in data:
            raise Problem(f"{path} has the line ends of Windows, which mpirun does not read; run: sed -i 's/\\r$//' {path}")
        lines = data.decode(errors='replace').splitlines()
    hosts = {}
    for number, line in enumerate(lines, 1):
        if host := parse(line, f'{path}, line {number}'):
            if host.name in hosts:
                raise Problem(f'{path}, line {number}: {host.name} is there already; write each machine once')
            hosts[host.name] = host
    if not hosts:
        raise Problem(f'{path} names no machine; write one a line, {USAGE}')
    return list(hosts.values())


class Settings:
    """What is kept beside a host file: `FILE.ssh`, which ssh reads. `network`: the one that connects the machines, if that is known."""

    def __init__(self, hostfile):
        self.hostfile = pathlib.Path(hostfile)
        self.path = self.hostfile.with_name(self.hostfile.name + SUFFIX)
        self.network, self.has_program, self.said = None, False, []
        self.is_there = self.path.is_file()
        if self.is_there:
            text = self.path.read_text(errors='replace')
            self.said = [line for line in text.splitlines() if line.startswith(SAID)]
            self.network = next((line.removeprefix(NETWORK).strip() for line in text.splitlines() if line.startswith(NETWORK)), None)
            self.has_program = PREFIX in text

    def require_hosts(self, hosts):
        """Raises Problem if the host file names others than those for which this was written."""
        changed = [host.name for host in hosts if SAID + host.said not in self.said]
        if changed:
            raise Problem(f'{self.hostfile} says something else of {changed[0]} than {self.path.name}; run: launch/cluster setup '
                          f'{self.hostfile}')

    def write(self, hosts):
        lines = [f'# Written by launch/cluster for {self.hostfile.name}: ssh and mpirun read it.\n']
        lines += [f'{NETWORK}{self.network}\n'] if self.network else []
        lines += [f'{PREFIX}{PROGRAM}\n'] if self.has_program else []
        lines += [f'{SAID}{host.said}\n' for host in hosts]
        lines += [host.entry() for host in hosts]
        lines += ['Match all\n  BatchMode yes\n  StrictHostKeyChecking yes\n', f'  ConnectTimeout {CONNECT_S}\n', '  LogLevel ERROR\n',
                  'Include ~/.ssh/config\nInclude /etc/ssh/ssh_config\n']
        try:
            self.path.write_text(''.join(lines))
        except OSError as error:
            raise Problem(f'{self.path} cannot be written ({error.strerror}); put the host file into a folder of yours') from None

    def parameters(self):
        """{name: value} of mpirun by which ranks and daemons reach each other."""
        # A daemon of mpirun takes all ports that it is given, so jobs at the same time need different ones.
        daemons = random.sample(range(FIRST_DAEMON_PORT, LAST_PORT + 1), PORTS_OF_A_DAEMON)
        ports = {'btl_tcp_port_min_v4': FIRST_PORT, 'btl_tcp_port_range_v4': FIRST_DAEMON_PORT - FIRST_PORT, 'btl_tcp_disable_family': 6,
                 'oob_tcp_dynamic_ipv4_ports': ','.join(map(str, daemons))}
        return self.interfaces() | {name: str(value) for name, value in ports.items()}

    def interfaces(self):
        return {'oob_tcp_if_include': self.network, 'btl_tcp_if_include': self.network} if self.network else {}

    def mpirun_words(self):
        """By which it reaches the machines."""
        return words_of({'plm_rsh_args': f'-F {self.path.resolve()}'} | self.parameters())


def words_of(parameters):
    """For mpirun."""
    return [word for name, value in parameters.items() for word in ('--mca', name, value)]


def program_words():
    """The command that starts the program that `setup` has installed, on any of the machines."""
    script = (f'its="$HOME/{PROGRAM}/$(uname -m)/yamata"; [ -x "$its" ] || {{ echo "yamata: the program is not installed on $(hostname); '
              'launch/cluster setup installs it" >&2; exit 2; }; exec "$its" "$@"')
    return ['sh', '-c', script, 'yamata']


def config_words(config):
    """For ssh; None: the person's own."""
    return ['-F', str(config)] if config else ['-o', 'BatchMode=yes']


def resolve(hosts, config):
    """Finds each host's address, user and port, as ssh does, and which one is this machine."""
    for host in hosts:
        said = subprocess.run(['ssh', '-G', *config_words(config), host.name], capture_output=True, text=True).stdout.splitlines()
        found = dict(line.split(' ', 1) for line in said if line.startswith(('hostname ', 'port ', 'user ')))
        host.address, host.user = found.get('hostname', host.name), found.get('user', getpass.getuser())
        host.port = int(found.get('port', 22))
        host.is_here = is_here(host.address)


def numbers_of(name):
    """The IPv4 addresses of a name; none: it has no such."""
    try:
        return sorted({its[4][0] for its in socket.getaddrinfo(name, None, socket.AF_INET, socket.SOCK_STREAM)})
    except OSError:
        return []


def is_here(name):
    """Whether it is a name of this machine: only its own addresses can be bound."""
    for number in numbers_of(name):
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            try:
                probe.bind((number, 0))
                return True
            except OSError:
                pass
    return name == socket.gethostname()


def own_label():
    return socket.gethostname().partition('.')[0]


def shown(words):
    return shlex.join(map(str, words))
