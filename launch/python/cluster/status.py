"""launch/cluster status: what is on the machines."""
from common import places

from . import check

COLUMNS = ['machine', 'ssh', 'system', 'Open MPI', 'program', 'cores', 'memory (GiB)', 'free memory', 'free disk', 'processes']


def gib(kib):
    return f'{int(kib) / (1 << 20):.1f}' if kib.isdigit() else '?'


def row(its, identity, is_slurm):
    host = its.host
    where = 'here' if host.is_here else 'by srun' if host.by_srun else host.named_for_ssh()
    if not its.values:
        return [host.name, where, its.fault.what]
    program = 'none' if not its['runs'].startswith('yamata') else 'the same' if its['program'] == identity else 'another'
    program = str(places.program()) if is_slurm else program
    return [host.name, where, f'{its["release"]} {its["machine"]}', its['openmpi'] or 'none', program, its['cores'],
            gib(its['memory_kib']), gib(its['available_kib']), gib(its['home_free_kib']), its['leftovers']]


def text_of(rows):
    """A table. Rows may end early: their last cell then goes over the other columns."""
    whole = [cells for cells in rows if len(cells) == len(COLUMNS)]
    widths = [max(len(cells[i]) for cells in whole) for i in range(len(COLUMNS))]
    return '\n'.join('  '.join(cell.ljust(width) for cell, width in zip(cells, widths)).rstrip() for cells in rows)


def status(path):
    """Prints a table; returns the exit code: 1 if a machine does not answer."""
    cluster = check.Cluster(path)
    cluster.ask()
    identity = check.identity()
    print(text_of([COLUMNS, *(row(its, identity, cluster.is_slurm) for its in cluster.facts)]))
    for its in cluster.facts:
        if its['fetched']:
            print(f'{its.host.name} keeps layers of: {its["fetched"].strip(" ,")}')
    return 0 if all(its.values for its in cluster.facts) else 1
