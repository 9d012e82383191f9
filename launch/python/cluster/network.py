"""The network that connects all machines, and whether its ports are open between them."""
import ipaddress
import re
import subprocess

from . import remote
from .facts import Fault
from .hostfile import FIRST_DAEMON_PORT, FIRST_PORT, LAST_PORT

TRIED = FIRST_PORT, FIRST_DAEMON_PORT, LAST_PORT - 49
CONNECT_S, READY_S = 3, 10
VIRTUAL = re.compile(r'lo|docker|br-|veth|virbr|cni|podman|tun|tailscale')
# It waits on a port from each of the given ones on, and says which, until its standard input ends. A port that a job has left is taken for
# a minute.
LISTEN = r'''perl -e 'use Socket; my ($a, @p) = @ARGV; my (@s, @t); $| = 1;
for my $p (@p) { for my $q ($p .. $p + 49) { socket(my $s, PF_INET, SOCK_STREAM, 6); setsockopt($s, SOL_SOCKET, SO_REUSEADDR, 1);
next unless bind($s, sockaddr_in($q, inet_aton($a))) && listen($s, 64); push @s, $s; push @t, $q; last } }
print "ready @t\n"; while (sysread(STDIN, my $x, 99)) {}' '''
# It says which of its arguments ADDRESS:PORT do not answer.
CONNECT = r'''perl -e 'use Socket; use IO::Handle; use Errno; my %w; my $limit = shift;
for my $t (@ARGV) { my ($a, $p) = split /:/, $t; socket(my $s, PF_INET, SOCK_STREAM, 6); $s->blocking(0);
$w{$t} = $s if connect($s, sockaddr_in($p, inet_aton($a))) || $!{EINPROGRESS}; print "closed $t $!\n" unless $w{$t} }
my $end = time + $limit;
while (%w && time < $end) { my $b = ""; vec($b, fileno($_), 1) = 1 for values %w; my ($n, $o) = (0, $b);
next unless select(undef, $o, undef, 1) > 0;
for my $t (keys %w) { next unless vec($o, fileno($w{$t}), 1); my $e = unpack("i", getsockopt($w{$t}, SOL_SOCKET, SO_ERROR));
if ($e) { $! = $e; print "closed $t $!\n" } delete $w{$t} } }
print "closed $_ no answer\n" for keys %w; print "end\n"' '''


def networks_of(facts):
    """{network: address of the machine in it}, without those of containers and virtual machines."""
    addresses = [ipaddress.ip_address(word) for word in facts['addresses'].split() if re.fullmatch(r'[0-9.]+', word)]
    found = {}
    for word in facts['routes'].split():
        device, destination, mask = word.split('/')
        if VIRTUAL.match(device) or mask == '00000000':
            continue
        number, bits = (int.from_bytes(bytes.fromhex(its)[::-1], 'big') for its in (destination, mask))
        network = ipaddress.ip_network((number, bin(bits).count('1')), strict=False)
        inside = [address for address in addresses if address in network]
        if inside and not network.is_loopback:
            found[network] = inside[0]
    return found


def common(all_facts):
    """[(network, {name: address})]: those in which each machine has an address of its own; those with the addresses of ssh first."""
    each = {facts.host.name: networks_of(facts) for facts in all_facts}
    shared = set.intersection(*(set(its) for its in each.values())) if each else set()
    found = [(network, {name: str(its[network]) for name, its in each.items()}) for network in shared]
    found = [(network, its) for network, its in found if len(set(its.values())) == len(its)]
    by_ssh = {facts.host.address for facts in all_facts}
    return sorted(found, key=lambda its: (-len(by_ssh & set(its[1].values())), str(its[0])))


class Listener:
    """Waits on one machine on some ports of an address."""

    def __init__(self, host, config, address):
        words = [LISTEN + ' '.join([address, *map(str, TRIED)])]
        command = ['sh', '-c', *words] if host.is_here else remote.command_for(host, config, words)
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)

    def ports(self):
        """Those on which it waits, when it does; none if it failed."""
        while line := self.process.stdout.readline():
            if line.startswith(b'ready '):
                return [int(word) for word in line.split()[1:]]
        return []

    def end(self):
        self.process.stdin.close()
        self.process.stdout.close()
        try:
            self.process.wait(READY_S)
        except subprocess.TimeoutExpired:
            self.process.kill()


def closed(hosts, config, addresses):
    """[(from, to, port, why)]: connections between machines that cannot be made. `addresses`: {name: address}."""
    listeners = remote.each(hosts, lambda host: Listener(host, config, addresses[host.name]))
    try:
        ports = dict(zip(addresses, remote.each(listeners, Listener.ports)))

        def try_all(host):
            there = [f'{address}:{port}' for name, address in addresses.items() if name != host.name for port in ports[name]]
            answer = remote.run(host, config, f'{CONNECT} {CONNECT_S} {" ".join(there)}\n', CONNECT_S + READY_S)
            names = {address: name for name, address in addresses.items()}
            return [(host.name, names[address], int(port), why) for address, port, why in
                    re.findall(r'^closed ([0-9.]+):([0-9]+) (.*)$', answer.out, re.M)]
        return [its for found in remote.each(hosts, try_all, 'machines tried each other') for its in found]
    finally:
        for listener in listeners:
            listener.end()


def fault_of(connections, network):
    """Fault lines for connections that cannot be made: one for each machine that is not reached."""
    by_target = {}
    for start, target, port, why in connections:
        by_target.setdefault(target, []).append((start, port, why))
    for target, its in by_target.items():
        from_whom, ports = ', '.join(sorted({start for start, *_ in its})), ', '.join(map(str, sorted({port for _, port, _ in its})))
        yield Fault('firewall', target, f'{from_whom} cannot reach it on port {ports} ({its[0][2]})',
                    f'open TCP ports {FIRST_PORT} to {LAST_PORT} between the machines: sudo ufw allow proto tcp from {network} to any port '
                    f'{FIRST_PORT}:{LAST_PORT}')


def choose(all_facts, config):
    """(network or None, faults): the first common one over which all machines reach each other."""
    hosts, options = [facts.host for facts in all_facts], common(all_facts)
    if len(hosts) < 2:
        return None, []
    if not options:
        return None, [Fault('network', ', '.join(host.name for host in hosts), 'no IPv4 network has an address of each of them',
                            'connect them to one switch or router; a cluster across routers needs --mpirun with its own if_include')]
    faults = []
    for network, addresses in options:
        connections = closed(hosts, config, addresses)
        if not connections:
            return network, []
        faults = faults or list(fault_of(connections, network))
    return None, faults
