"""What a job is started with, by the flags of a script."""
import shlex

from . import engine, job, machines, start_checks


def plan_of(flags, words):
    """`words`: the flags of the engine. Raises Problem."""
    program = start_checks.program(flags.hostfile is not None or flags.ranks is not None)
    if flags.hostfile is None and flags.ranks is None:
        return job.Plan(lambda its, _: engine.command_of(program, its), words, None)
    hosts, mpirun_words = None, shlex.split(flags.mpirun)
    if flags.hostfile:
        start_checks.require_file(flags.hostfile, 'a host file')
        hosts = machines.Machines(start_checks.machines(flags.hostfile), flags.ssh_config)

    def command_for(its, hostfile):
        ranks = flags.ranks or len(hosts.all)
        if hosts and hosts.missing():
            ranks = min(ranks, len(hosts.here()))
        return engine.command_of(program, its, ranks, hostfile, engine.launcher_words(mpirun_words, flags.ssh_config))
    return job.Plan(command_for, words, hosts, 'orte_tmpdir_base' in mpirun_words)
