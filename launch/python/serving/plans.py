"""What a job is started with, by the flags of a script."""
import shlex

from common.problem import Problem

from . import engine, job, machines, start_checks


def plan_of(flags, words):
    """`words`: the flags of the engine. Raises Problem."""
    program = start_checks.program(flags.hostfile is not None or flags.ranks is not None)
    if flags.ssh_config and flags.hostfile is None:
        raise Problem('--ssh-config needs machines; name them with --hostfile')
    if flags.hostfile is None and flags.ranks is None:
        return job.Plan(lambda its, *_: engine.command_of(program, its), words, None)
    if flags.ssh_config:
        start_checks.require_file(flags.ssh_config, "a configuration of ssh")
    hosts, mpirun_words = None, shlex.split(flags.mpirun)
    if flags.hostfile:
        hosts = machines.Machines(start_checks.machines(flags.hostfile), flags.ssh_config)

    def command_for(its, hostfile, shared):
        ranks = flags.ranks or len(hosts.all)
        if hosts and hosts.missing():
            ranks = min(ranks, len(hosts.here()))
        launcher = engine.launcher_words(mpirun_words, flags.ssh_config, None if hosts else shared)
        return engine.command_of(program, its, ranks, hostfile, launcher)
    return job.Plan(command_for, words, hosts, 'orte_tmpdir_base' in mpirun_words)
