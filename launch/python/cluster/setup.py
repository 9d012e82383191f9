"""launch/cluster setup: makes machines ready, step by step; what is there already stays."""
import sys

from common.problem import Problem

from . import check, keys, packages, programs, remote


def say(text):
    print(text, file=sys.stderr, flush=True)


class Setup:
    """`yes`: nothing is asked. `only_shows`: nothing is done, as if there is nobody to ask."""

    def __init__(self, path, yes, only_shows):
        self.cluster = check.Cluster(path)
        self.cannot_ask = not (yes or only_shows or sys.stdin.isatty())
        self.yes, self.only_shows, self.failed, self.installs = yes, only_shows or self.cannot_ask, [], False

    def run(self):
        """Returns the exit code."""
        self.cluster.ask()
        enters = self.enter_all()
        plan = self.plan()
        if plan and not self.only_shows:
            self.agree('go on?')
            self.install(plan)
            self.cluster.ask()
        if self.cannot_ask and (enters or plan):
            raise Problem('nothing was changed, for there is no terminal to ask; --yes agrees to all of it')
        if self.only_shows and not self.cannot_ask:
            say('nothing was changed')
            return 0
        return self.finish()

    def agree(self, question):
        """Raises Problem if the person does not."""
        if self.yes:
            return
        print(f'{question} [Y/n] ', end='', file=sys.stderr, flush=True)
        if sys.stdin.readline().strip().lower() not in ('', 'y', 'yes'):
            raise Problem('nothing more was changed')

    def of_kind(self, *kinds):
        by_name = {host.name: host for host in self.cluster.hosts}
        return [by_name[fault.machine] for fault in self.cluster.faults if fault.kind in kinds and fault.machine in by_name]

    def enter_all(self):
        """Keys, so that ssh enters each machine without questions; whether there were any to add."""
        unknown = self.of_kind('unknown key')
        if unknown and self.know(unknown):
            self.cluster.ask()
        closed = self.of_kind('key')
        if (unknown or closed) and keys.public_key() is None:
            say('your key: a new one, ~/.ssh/id_ed25519, without a passphrase')
            if not self.only_shows:
                self.agree('make it?')
                keys.make_key()
                self.cluster.ask()
                closed = self.of_kind('key')
        for host in closed:
            say(f'{host.name}: your key, to be added to ~/.ssh/authorized_keys of {host.user}')
            if not self.only_shows:
                fault = keys.authorize(host, self.cluster.config, keys.public_key())
                self.failed += [fault] if fault else []
        if closed and not self.only_shows:
            self.cluster.ask()
        return bool(unknown or closed)

    def know(self, hosts):
        """Adds the host keys of machines that are new here, after they were shown; whether there are any."""
        found = remote.each(hosts, keys.scan, 'host keys')
        for host, lines in zip(hosts, found):
            for line in lines[:1]:
                say(f'{host.name}: its host key is {keys.fingerprint(line)}')
        if self.only_shows:
            say('what these machines lack is seen once their host keys are known')
            return False
        self.agree('are these the right machines? (ssh-keygen -l -f /etc/ssh/ssh_host_ed25519_key.pub there shows the same)')
        keys.know([line for lines in found for line in lines])
        return any(found)

    def plan(self):
        """[(facts, kinds of what is missing)], which are shown."""
        missing = {}
        for fault in self.cluster.faults:
            if fault.kind in ('packages', 'program'):
                missing.setdefault(fault.machine, set()).add(fault.kind)
        plan = [(its, missing[its.host.name]) for its in self.cluster.answering() if its.host.name in missing]
        for its, kinds in plan:
            said = [f'packages ({", ".join(packages.NEEDED)} and what they need)'] if 'packages' in kinds else []
            other = f' for {its["machine"]}, compiled here by launch/package' if programs.is_made_here(its, self.cluster.head) else ''
            said += [f'the program (~/.local/lib/yamata){other}'] if 'program' in kinds else []
            say(f'{its.host.name}: {" and ".join(said)}')
        return plan

    def install(self, plan):
        config, head, self.installs = self.cluster.config, self.cluster.head, True
        lacking = [its for its, kinds in plan if 'packages' in kinds]
        found = remote.each(lacking, lambda its: packages.install(its, config), 'machines with packages')
        blocked = {fault.machine for fault in found if fault}
        others = [its for its, kinds in plan if 'program' in kinds and its.host.name not in blocked]
        made = programs.Programs(head)
        made.prepare(others, say)
        found += remote.each(others, lambda its: programs.install(made, its, config), 'machines with the program')
        self.failed += [fault for fault in found if fault]

    def finish(self):
        """What `check` would say, with the causes of what failed."""
        failed = {fault.machine: fault for fault in self.failed}
        self.cluster.faults = [failed.get(fault.machine, fault) if fault.kind in ('packages', 'program', 'key') else fault
                               for fault in self.cluster.faults]
        self.cluster.faults = list({fault.line(): fault for fault in self.cluster.faults}.values())
        return check.conclude(self.cluster, after_setup=True)


def setup(path, yes, only_shows):
    its = Setup(path, yes, only_shows)
    try:
        return its.run()
    except KeyboardInterrupt:
        more = 'apt may still be at work on other machines' if its.installs else 'nothing was installed'
        say(f'interrupted; {more}; setup can be started again at any time')
        return 130

