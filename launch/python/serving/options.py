"""The flags of launch/serve. Those that it does not know are the engine's."""
import re

from common.flags import Parser, number

EPILOG = ('All other flags are those of `yamata engine`, such as -c, --threads, -md, --heads, --layer-split, --cache-tokens and '
          '--timeout (20 seconds here).')


def add_machines(made):
    where = made.add_argument_group('machines (without these: one process on this machine)')
    where.add_argument('--hostfile', metavar='FILE', help='a rank on each machine of this host file; slurm: on each node of '
                       'the Slurm job')
    where.add_argument('--ranks', type=number(int, 1, 4096), metavar='N', help='so many ranks, on this machine or those of --hostfile')
    where.add_argument('--ssh-config', metavar='FILE', help="ssh's configuration for these machines: users, ports, addresses")
    where.add_argument('--mpirun', metavar='WORDS', default='', help='more words for mpirun, in one argument')


def parser(doc):
    made = Parser(doc, epilog=EPILOG, usage='%(prog)s -m MODEL [--hostfile FILE | --ranks N] [--port PORT] [flags of the engine]',
                  allow_abbrev=False)
    made.add_argument('-m', '--model', metavar='MODEL', required=True, help='GGUF file; launch/get-model downloads some')
    add_machines(made)
    web = made.add_argument_group('address and access')
    web.add_argument('--port', type=number(int, 0, 65535), default=8080, metavar='PORT', help='default: 8080; 0: a free one')
    web.add_argument('--host', default='127.0.0.1', metavar='ADDRESS', help='where to listen (default: 127.0.0.1, only this machine)')
    web.add_argument('--api-key-file', metavar='FILE', help='keys, one a line, of which clients send one; needed beyond this machine')
    web.add_argument('--allow-host', action='append', default=[], metavar='NAME', help='a name by which clients call this server')
    web.add_argument('--cors-origin', action='append', default=[], metavar='ORIGIN', help='an origin whose web pages may ask; *: all')
    says = made.add_argument_group('answers')
    says.add_argument('--alias', metavar='NAME', help="the model's name for clients (default: that of the file)")
    says.add_argument('--chat-template-file', metavar='FILE', help="a Jinja template instead of the model's own")
    says.add_argument('--temp', type=number(float, 0, 100), default=0.8, metavar='T', help='temperature of requests without one '
                      '(default: 0.8)')
    says.add_argument('--top-k', type=number(int, 0), default=40, metavar='K', help='top-k of requests without one (default: 40)')
    says.add_argument('--top-p', type=number(float, 0, 1), default=0.95, metavar='P', help='top-p of requests without one (default: 0.95)')
    says.add_argument('--min-p', type=number(float, 0, 1), default=0.05, metavar='P', help='min-p of requests without one (default: 0.05)')
    says.add_argument('--queue', type=number(int, 0, 100000), default=64, metavar='N',
                      help='texts that may wait for the engine; more are refused with 429 (default: 64)')
    says.add_argument('--state', metavar='FOLDER', help='keep requests with an Idempotency-Key there: the same one goes on after a crash '
                      'of this server')
    says.add_argument('--log', metavar='FILE', help='a line of JSON per request, without its text; the file rotates')
    return made


def read(arguments, doc):
    """(flags, flags of the engine). Flags such as -md are hidden from argparse, which would take them for -m with a value."""
    hidden = ['\0' + word if re.match('-[a-z][a-z]', word) else word for word in arguments]
    flags, others = parser(doc).parse_known_args(hidden)
    return flags, [word.removeprefix('\0') for word in others]


def defaults_of(flags):
    return {'temperature': flags.temp, 'top_k': flags.top_k, 'top_p': flags.top_p, 'min_p': flags.min_p}
