"""The flags of launch/emulate."""
import argparse
import math
import re

from common.flags import Parser

from . import hosts

TIMES = {'us': 1e-3, 'ms': 1, 's': 1e3}
UNITS = {'rate': {'kbit': 1e-3, 'mbit': 1, 'gbit': 1e3}, 'delay': TIMES, 'jitter': TIMES, 'loss': {'%': 1, '': 1},
         'cpu': {'%': 1, '': 1}, 'slow': {'': 1}}


def number_of(text):
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def values(kind):
    """Parser of a list of quantities with units."""
    def parse(text):
        numbers = []
        for word in text.split(','):
            match = re.fullmatch(r'([0-9.]+)([a-z%]*)', word.strip().lower())
            number = number_of(match.group(1)) if match and match.group(2) in UNITS[kind] else None
            if number is None:
                units = ', '.join(unit for unit in UNITS[kind] if unit)
                needed = f' with one of the units {units}' if '' not in UNITS[kind] else ''
                raise argparse.ArgumentTypeError(f"'{word}' is no {kind}; write a number{needed}")
            numbers.append(number * UNITS[kind][match.group(2)])
        return numbers
    return parse


def refusal(arguments):
    """The error in the given numbers, or None."""
    if not 1 <= arguments.hosts <= hosts.MOST_HOSTS:
        return f'--hosts must be between 1 and {hosts.MOST_HOSTS}'
    if arguments.np and not 1 <= arguments.np <= arguments.hosts:
        return f'--np must be between 1 and --hosts, {arguments.hosts}: a host has one rank'
    if any(value <= 0 for value in arguments.cpu + arguments.rate):
        return '--cpu and --rate must be above 0; leave them out for no limit'
    if any(factor < 1 for factor in arguments.slow):
        return '--slow must be at least 1'
    if any(percent > 100 for percent in arguments.cpu):
        return '--cpu must be at most 100: a host with a share of a core has one core; leave --cpu out for all cores'
    if any(percent >= 100 for percent in arguments.loss):
        return '--loss must be below 100'
    for flag in 'cpu', 'slow', 'rate', 'delay', 'jitter', 'loss':
        if (given := len(getattr(arguments, flag))) not in (0, 1, arguments.hosts):
            return f'--{flag} has {given} values for {arguments.hosts} hosts; give one for all or one for each'
    return None


def parse(words, description=None, parser_class=Parser):
    """The flags and the program. Reports an error as the parser does."""
    parser = parser_class(description, usage='%(prog)s --hosts N [FLAG ...] -- PROGRAM [ARGUMENT ...]')
    parser.add_argument('--hosts', type=int, required=True, metavar='N', help='emulated hosts, one rank each')
    parser.add_argument('--np', type=int, metavar='N', help='number of ranks, if fewer than hosts')
    parser.add_argument('--cpu', type=values('cpu'), default=[], metavar='PERCENT',
                        help='share of one core per host; 100: a core without a quota (default: all cores)')
    parser.add_argument('--slow', type=values('slow'), default=[], metavar='N',
                        help='computing takes N times as long: yamata pauses after every operation, and hosts compute in turn as far as '
                             'they can; messages keep their speed')
    parser.add_argument('--rate', type=values('rate'), default=[], metavar='RATE',
                        help='link rate such as 100mbit or 1gbit (default: no limit)')
    parser.add_argument('--delay', type=values('delay'), default=[], metavar='TIME', help='one-way delay such as 0.1ms (default: none)')
    parser.add_argument('--jitter', type=values('jitter'), default=[], metavar='TIME',
                        help='random additional delay of each packet, at most; packets keep their order (default: none)')
    parser.add_argument('--loss', type=values('loss'), default=[], metavar='PERCENT', help='packets that are lost (default: none)')
    parser.add_argument('--mpirun', default='', metavar='FLAGS',
                        help="additional flags of mpirun, in one word: --mpirun='--mca btl_tcp_links 2'")
    parser.add_argument('--ssh', action='store_true',
                        help='each host is a machine of its own, with files, a user and an ssh server, and nothing else installed; the '
                             'program runs as the user of the first one, who has this folder, and a host file named hosts (default: a '
                             'shell)')
    parser.add_argument('program', nargs='*', metavar='PROGRAM',
                        help='the command, with its arguments; yamata means the program that was built or installed with this script')
    arguments, rest = parser.parse_known_args(words)
    if rest:
        parser.error("write -- before the program, as in launch/emulate --hosts 2 -- yamata run -m FILE.gguf -p 'Once'; "
                     f"'{rest[0]}' is no flag of emulate")
    if not arguments.program and not arguments.ssh:
        parser.error('name a program behind --')
    if wrong := refusal(arguments):
        parser.error(wrong)
    return arguments
