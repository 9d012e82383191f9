"""The machines of a job: which take part, which are missing and why, and which of those answer again."""
import asyncio
import shutil
import socket
import time

TAKE_BACK_S = 10   # a machine that was lost answers for so long before it takes part again; twice as long if it is lost again soon
LONGEST_S = 3600
SOON = 10          # so many times as long as it had to wait
CONNECT_S = 1.0
SSH_PORT = 22


def read(text):
    """The machines of a host file, each with its lines, in order."""
    lines = {}
    for line in text.splitlines():
        line = line.partition('#')[0].strip()
        if line:
            lines.setdefault(line.split()[0], []).append(line)
    return [Machine(name, its) for name, its in lines.items()]


def hostfile(machines):
    return ''.join(f'{line}\n' for machine in machines for line in machine.lines)


class Machine:
    """`why`: of its last loss. `wait_s`: how long it then has to answer. `came`: when it took part again. `answers`: since when it has
    answered; None: it does not, or nobody has asked. `mute`: it did not answer though it took part, so it cannot be asked whether it
    lives."""

    def __init__(self, name, lines):
        self.name, self.lines = name, lines
        self.here, self.why, self.losses, self.answers, self.mute, self.address = True, '', 0, None, False, None
        self.wait_s, self.came = 0, time.monotonic()

    def lose(self, why):
        is_soon = self.wait_s and time.monotonic() - self.came < SOON * self.wait_s
        self.wait_s = min(2 * self.wait_s, LONGEST_S) if is_soon else TAKE_BACK_S
        self.here, self.why, self.answers = False, why, None
        self.losses += 1

    def come(self):
        self.here, self.came = True, time.monotonic()

    def is_due(self):
        """Whether it has answered for long enough to take part again."""
        return self.answers is not None and time.monotonic() - self.answers >= self.wait_s

    def described(self):
        return {'name': self.name, 'here': self.here, 'losses': self.losses} | ({'why': self.why} if self.why else {})


class Machines:
    def __init__(self, all_of_them, ssh_config=None):
        self.all, self.ssh_config = all_of_them, ssh_config

    def here(self):
        return [machine for machine in self.all if machine.here]

    def missing(self):
        return [machine for machine in self.all if not machine.here]

    async def ask(self, machines):
        """Asks all at once whether they live, and notes their answers; returns those that do. It is the kernel that answers, so a machine
        whose programs hang lives, too. A mute one counts as alive."""
        lives = await asyncio.gather(*map(self.lives, machines))
        for machine, its in zip(machines, lives):
            machine.answers = (machine.answers or time.monotonic()) if its else None
        return [machine for machine in machines if machine.answers or machine.mute]

    async def find_mute(self):
        """Asks those that take part, whether or not their answers can be heard here."""
        machines = self.here()
        lives = await self.ask(machines)
        for machine in machines:
            machine.mute = machine not in lives

    async def lives(self, machine):
        """Whether its ssh port, open or closed, answers."""
        machine.address = machine.address or await self.address_of(machine.name)
        host, port = machine.address
        loop = asyncio.get_running_loop()
        probe = None
        try:
            family, kind, protocol, _, address = (await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM))[0]
            probe = socket.socket(family, kind, protocol)
            probe.setblocking(False)
            await asyncio.wait_for(loop.sock_connect(probe, address), CONNECT_S)
            return True
        except ConnectionRefusedError:
            return True
        except (OSError, asyncio.TimeoutError):
            return False
        finally:
            if probe:
                probe.close()

    async def address_of(self, name):
        """Host and port as ssh finds them in its configuration."""
        if shutil.which('ssh'):
            more = ['-F', self.ssh_config] if self.ssh_config else []
            ssh = await asyncio.create_subprocess_exec('ssh', '-G', *more, name, stdin=asyncio.subprocess.DEVNULL,
                                                       stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL)
            said = (await ssh.communicate())[0].decode(errors='replace').splitlines()
            found = dict(line.split(' ', 1) for line in said if line.startswith(('hostname ', 'port ')))
            if len(found) == 2 and found['port'].isdigit():
                return found['hostname'], int(found['port'])
        return name, SSH_PORT
