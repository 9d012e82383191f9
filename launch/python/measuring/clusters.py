"""The clusters of an experiment: what starts ranks on each."""
import shlex

from common import places
from common.flags import Parser
from common.problem import Problem
from emulation import flags as emulated

from .plan_values import as_list, flag_of, refuse_unknown, require_text, run_flags, whole_number, words_of

BATCH = str(places.LAUNCH / 'batch')
EMULATE = str(places.LAUNCH / 'emulate')
CLUSTER_KINDS = {'hostfile': {'hostfile', 'ranks', 'mpirun', 'survive'}, 'hosts': {'hosts', 'cpu', 'rate', 'delay', 'emulate'},
                 'slurm': {'slurm', 'ranks', 'srun', 'survive'}, 'ranks': {'ranks', 'mpirun', 'survive'}}


def clusters_of(tables):
    """(name, its table's name, nodes or '', launching words, flags) of every cluster; a list of ranks or hosts is one for each."""
    for name, table in tables.items():
        kind = next((kind for kind in CLUSTER_KINDS if isinstance(table, dict) and kind in table), None)
        if kind is None:
            raise Problem(f'clusters.{name} does not say where to run; give ranks = 4, hostfile = "...", hosts = 8 (emulated) '
                          'or slurm = true')
        refuse_unknown(f'clusters.{name}', table, CLUSTER_KINDS[kind] | {'flags', 'strategies'})
        key = 'hosts' if kind == 'hosts' else 'ranks'
        counts = as_list(table.get(key, ''))
        if not counts:
            raise Problem(f'clusters.{name}: {key} has no values')
        if 'hostfile' in table:
            require_text(f'clusters.{name}: hostfile', table['hostfile'], 'give the name of a file')
        if table.get('slurm', True) is not True:
            raise Problem(f'clusters.{name}: slurm is {table["slurm"]!r}; write slurm = true, or leave it out')
        if flag_of(f'clusters.{name}', table, 'survive', False) and 'srun' in table:
            raise Problem(f'clusters.{name}: with survive, mpirun starts the ranks; leave srun out')
        for count in counts:
            if key in table:
                whole_number(f'clusters.{name}: {key}', count)
            words = launching(kind, count, table, name)
            flags = run_flags(f'clusters.{name}.flags', table.get('flags', []))
            yield f'{name}-{count}' if len(counts) > 1 else name, name, count, words, flags


class EmulatedFlags(Parser):
    """Reads the flags of launch/emulate; bad ones are a Problem."""

    def error(self, message):
        raise Problem(message.removeprefix('argument '))


def emulating(name, words):
    try:
        emulated.parse([*words, '--', 'true'], parser_class=EmulatedFlags)
    except Problem as problem:
        raise Problem(f'clusters.{name}: {problem}') from None
    return [EMULATE, *words, '--']


def survives(words):
    """Whether a command with these first words goes on over the machines that are left, if some are lost."""
    return bool(words) and words[0] == BATCH


def launching(kind, count, table, name):
    extra = lambda key, fallback: words_of(f'clusters.{name}.{key}', table.get(key, fallback))
    if kind == 'hosts':
        limits = [word for key in ('cpu', 'rate', 'delay') if key in table
                  for word in (f'--{key}', ','.join(map(str, as_list(table[key]))))]
        return emulating(name, ['--hosts', str(count), *limits, *extra('emulate', [])])
    if table.get('survive'):
        where = {'hostfile': ['--hostfile', table.get('hostfile')], 'slurm': ['--hostfile', 'slurm']}.get(kind, [])
        words = extra('mpirun', [])
        return [BATCH, *where, *(['--ranks', str(count)] if count != '' else []), *(['--mpirun', shlex.join(words)] if words else [])]
    if kind == 'slurm':  # one rank per node, unless `srun` says otherwise
        return ['srun', *(['-N', str(count), '-n', str(count)] if count != '' else []), *extra('srun', [])]
    ranks = ['-np', str(count)] if count != '' else []
    if kind == 'hostfile':
        return ['mpirun', '--hostfile', table['hostfile'], *ranks, *extra('mpirun', ['--map-by', 'node', '--bind-to', 'none'])]
    return [] if count == 1 else ['mpirun', '--oversubscribe', *ranks, *extra('mpirun', ['--bind-to', 'none'])]
