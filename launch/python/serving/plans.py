"""What a job is started with, by the flags of a script."""
import re
import shlex

from cluster import hostfile, slurm
from common.problem import Problem

from . import engine, job, machines, start_checks


def reach(flags):
    """(program, configuration of ssh, parameters of mpirun) as launch/cluster has found them for this host file, or as the flags say."""
    program = [start_checks.program(flags.hostfile is not None or flags.ranks is not None, flags.hostfile)]
    if flags.ssh_config:
        start_checks.require_file(flags.ssh_config, "a configuration of ssh")
        return program, flags.ssh_config, {}
    if slurm.is_meant(flags.hostfile):
        return program, None, slurm.parameters()
    if not flags.hostfile:
        return program, None, {}
    settings = hostfile.Settings(flags.hostfile)
    if not settings.is_there:
        refuse_bare(flags.hostfile)
        return program, None, {}
    settings.require_hosts(hostfile.read(flags.hostfile))
    return hostfile.program_words() if settings.has_program else program, settings.path.resolve(), settings.parameters()


def refuse_bare(path):
    """Without what launch/cluster keeps, nobody knows what the host file says of ssh."""
    with open(path, errors='replace') as file:
        if any(re.match(r'[^#]*\S[^#]*#\s*ssh\s', line) for line in file):
            raise Problem(f'the machines of {path} are not set up; run: launch/cluster setup {path}')


def plan_of(flags, words):
    """`words`: the flags of the engine. Raises Problem."""
    if flags.ssh_config and flags.hostfile is None:
        raise Problem('--ssh-config needs machines; name them with --hostfile')
    named = start_checks.machines(flags.hostfile) if flags.hostfile else None
    program, ssh_config, network = reach(flags)
    if flags.hostfile is None and flags.ranks is None:
        return job.Plan(lambda its, *_: engine.command_of(program, its), words, None)
    mpirun_words = shlex.split(flags.mpirun)
    hosts = machines.Machines(named, ssh_config) if named else None

    def command_for(its, names, shared):
        ranks = flags.ranks or len(hosts.all)
        if hosts and hosts.missing():
            ranks = min(ranks, len(hosts.here()))
        launcher = engine.launcher_words(mpirun_words, ssh_config, None if hosts else shared, network)
        return engine.command_of(program, its, ranks, names, launcher)
    return job.Plan(command_for, words, hosts, 'orte_tmpdir_base' in mpirun_words)
