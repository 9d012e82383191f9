"""Cut links, stopped and killed daemons, ranks stopped at the start: the command ends soon after the deadline, with the right exit code and
one line. Exit code 77 if this machine cannot emulate hosts."""
import functools
import json
import os
import pathlib
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from support import DRAFT, PATIENCE, PROGRAM, ROOT, TARGET, emulation, main, some
from emulation.served import processes
TIMEOUT_S = 3  # a rank of a busy machine may wait for a core, but not so long
GENEROUS_S = round(60 * PATIENCE)  # a command that writes nothing for so long, or that goes on with an endless text, counts as hanging
LINK_RETURN_S = 10  # enough for a link that is repaired at once
os.environ['YAMATA_LINK_RETURN_S'] = str(LINK_RETURN_S)
TEXT = [str(PROGRAM), 'run', '-p', 'Once upon a time', '-t', '1', '--ignore-eos', '--timeout', str(TIMEOUT_S), '-m', str(TARGET)]
STAGES = ['--layer-split', '1,1,1']
ENDLESS = '1000000'  # tokens
LONG = [*TEXT, *STAGES, '-n', ENDLESS, '-c', '500000']


@functools.cache
def text_of(*program):
    return subprocess.run(program, check=True, capture_output=True).stdout


def wait_until(condition, limit_s=GENEROUS_S):
    end = time.monotonic() + limit_s
    while not (value := condition()):
        if time.monotonic() > end:
            raise AssertionError('what was waited for did not happen')
        time.sleep(0.002)
    return value


class Job:
    """A command on emulated hosts, whose output is read until its end."""

    def __init__(self, cluster, program, err):
        self.cluster, self.err, self.endless = cluster, err, ENDLESS in program
        self.process = cluster.start(program, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=err)
        self.out = b''

    def read_some(self):
        self.out += (some := os.read(self.process.stdout.fileno(), 4096))
        return some

    def read_a_third(self):
        """Reads a third of a text of 1500 tokens. By then, idle ranks have received the plan, however slow their links are."""
        while len(self.out) < 2000 and self.read_some():
            pass

    def end(self):
        """Waits for the end; returns the exit code."""
        def on_alarm(*_):
            raise AssertionError(f'the command never ended: {self.lines()}')
        signal.signal(signal.SIGALRM, on_alarm)
        signal.alarm(GENEROUS_S)
        try:
            while self.read_some():
                if not self.endless:
                    signal.alarm(GENEROUS_S)
            return self.process.wait()
        finally:
            signal.alarm(0)
            self.process.kill()
            self.process.stdout.close()

    def lines(self):
        self.err.seek(0)
        of_context = 'yamata: warning: a context of '
        return [line for line in self.err.read().splitlines() if line.startswith('yamata:') and not line.startswith(of_context)]

    def misses_a_rank(self):
        """Whether the head goes on without one. Does not move the position at which the job writes."""
        return b'the text goes on without' in os.pread(self.err.fileno(), 1 << 20, 0)

    def nothing_is_left(self):
        return not any(host.processes() for host in self.cluster.hosts)


class SlowLinks(emulation.Cluster):
    """A cluster on whose links a prompt takes several times the timeout."""

    def __init__(self, hosts):
        super().__init__(hosts, rate=[0.2])


def cut(host):
    emulation.run(['ip', '-n', host.namespace, 'link', 'set', 'eth0', 'down'])


def repair(host):
    emulation.run(['ip', '-n', host.namespace, 'link', 'set', 'eth0', 'up'])


def cut_path(host, other):
    """Both hosts still reach all others."""
    for one, to in ((host, other), (other, host)):
        address = emulation.run(['ip', '-n', to.namespace, '-4', '-o', 'addr', 'show', 'eth0']).stdout.split()[3].split('/')[0]
        emulation.run(['ip', '-n', one.namespace, 'route', 'add', 'blackhole', f'{address}/32'])


def send(number, name):
    """A fault: sends the signal to all processes with this name on a host."""
    def fault(host):
        for process in processes(host, name):
            os.kill(process, number)
    return fault


class WithMpirunOnTheFirst(emulation.Cluster):
    """A cluster whose first host runs mpirun, as on most real clusters, instead of a namespace outside the hosts."""

    def command(self, *arguments, **options):
        words = super().command(*arguments, **options)
        agent = [sys.executable, str(ROOT / 'launch' / 'emulate'), '--agent', self.prefix, self.hosts[0].name]
        return [*agent, f"exec {shlex.join(words[words.index('mpirun'):])}"]


class TwoRanksOnTheLast(emulation.Cluster):
    """A cluster whose last host has two ranks."""

    def command(self, *arguments, **options):
        words = super().command(*arguments, **options)
        words[words.index('-np') + 1] = str(self.count + 1)
        words[words.index('--host') + 1] += ':2'
        return words


class FarHosts(emulation.Cluster):
    """A cluster with such high latencies that a small model is fastest on a single host, however slow that is."""

    def __init__(self, hosts):
        super().__init__(hosts, delay=[50])


class ThreeHosts(unittest.TestCase):
    def strike(self, program, victim, fault, moment=Job.read_some, kind=emulation.Cluster, returns=False, left_s=0):
        """`returns`: a cut link is repaired after the end; else something may be left for `left_s` longer."""
        with kind(3) as cluster, tempfile.TemporaryFile('w+') as err:
            self.cluster, self.job = cluster, (job := Job(cluster, program, err))
            moment(job)
            fault(cluster.hosts[victim])
            code = job.end()
            if returns:
                repair(cluster.hosts[victim])
            wait_until(job.nothing_is_left, GENEROUS_S + left_s)
            return code, job.lines(), job.out

    def expect_named(self, rank, code, lines):
        self.assertEqual(code, 3, lines)
        self.assertEqual(len(lines), 1, lines)
        self.assertIn(f'yamata: rank {rank} (n{rank}) ', lines[0])

    def test_cut_link_while_generating_ends_the_command_and_names_the_rank(self):
        for rank in some(2, 0, 1):
            with self.subTest(rank=rank):
                code, lines, _ = self.strike(LONG, rank, cut)
                self.expect_named(rank, code, lines)

    def test_cut_path_between_two_ranks_is_named_in_one_line(self):
        for split, one, other in some(('0.4+0.3+0.3', 1, 2), ('1,1,1', 0, 1), ('1,1,1', 1, 2)):
            with self.subTest(split=split, one=one, other=other):
                program = [*TEXT, '--layer-split', split, '-n', ENDLESS, '-c', '500000']
                code, lines, _ = self.strike(program, one, lambda host: cut_path(host, self.cluster.hosts[other]))
                self.expect_named(one, code, lines)
                self.assertIn(f' and rank {other} (n{other}) have not heard each other', lines[0])

    def test_all_other_ranks_stopped_are_named_by_the_one_that_is_left(self):
        stop = send(signal.SIGSTOP, 'yamata')
        for left in some(1, 0):
            with self.subTest(left=left):
                code, lines, _ = self.strike(LONG, left, lambda host: [stop(other) for other in self.cluster.hosts if other is not host])
                self.expect_named(1 - left, code, lines)

    def test_ranks_whose_heartbeats_wait_behind_a_prompt_are_not_silent(self):
        program = [*TEXT, *STAGES, '-n', '3', '-c', '1024', '-p', 'There was once a poor miller. ' * 40]
        code, lines, _ = self.strike(program, 0, lambda host: None, kind=SlowLinks)
        self.assertEqual((code, lines), (0, []))

    def test_text_that_does_not_reach_mpirun_is_no_success(self):
        """Only the path from rank 0 to mpirun, which is on another machine, is cut: the job itself goes on to its end."""
        def fault(host):
            emulation.run(['ip', '-n', host.namespace, 'route', 'add', 'blackhole', '10.77.0.1/32'])
            emulation.run(['ip', '-n', self.cluster.desk, 'route', 'add', 'blackhole', '10.77.0.10/32'])
        code, lines, _ = self.strike([*TEXT, *STAGES, '-n', '1500', '-c', '2000'], 0, fault)
        self.assertEqual(code, 3, lines)
        self.assertEqual(len(lines), 1, lines)
        self.assertIn('does not reach mpirun', lines[0])

    def test_question_to_mpirun_that_is_not_answered_ends_before_the_others_miss_rank_0(self):
        def fault(host):
            emulation.run(['ip', '-n', self.cluster.desk, 'link', 'set', 'eth0', 'down'])
            wait_until(lambda: not processes(host, 'yamata'))
            emulation.run(['ip', '-n', self.cluster.desk, 'link', 'set', 'eth0', 'up'])
        code, lines, _ = self.strike([*TEXT, *STAGES, '-n', '300'], 0, fault)
        self.assertEqual(code, 3, lines)
        self.assertTrue(lines and all('does not reach mpirun' in line for line in lines), lines)

    def test_cut_link_of_mpiruns_own_host_or_another_is_told_apart(self):
        for rank in some(0, 1):
            with self.subTest(rank=rank):
                code, lines, _ = self.strike(LONG, rank, cut, kind=WithMpirunOnTheFirst)
                self.expect_named(rank, code, lines)

    def test_cut_link_while_starting_ends_the_command(self):
        for rank in some(2, 0):
            with self.subTest(rank=rank):
                begun = lambda job: wait_until(lambda: processes(job.cluster.hosts[rank], 'yamata-guard'))
                code, lines, _ = self.strike(LONG, rank, cut, begun)
                self.assertEqual(code, 3, lines)
                self.assertEqual(len(lines), 1, lines)

    def test_rank_stopped_while_starting_is_named(self):
        begun = lambda job: wait_until(lambda: processes(job.cluster.hosts[1], 'yamata-guard')
                                       and processes(job.cluster.hosts[1], 'yamata'))
        code, lines, _ = self.strike(LONG, 1, send(signal.SIGSTOP, 'yamata'), begun)
        self.expect_named(1, code, lines)

    def test_cut_drafter_is_missed_in_one_line_and_all_else_is_complete(self):
        text = [*TEXT, '-n', '1500', '-c', '2000']
        alone = subprocess.run(text, check=True, capture_output=True).stdout
        with tempfile.TemporaryDirectory() as folder:
            result = pathlib.Path(folder) / 'result.json'
            program = [*text, '-md', str(DRAFT), '--layer-split', '0.5,0.5/1', '--json', str(result)]
            code, lines, out = self.strike(program, 2, cut, left_s=LINK_RETURN_S)
            self.assertEqual(code, 0, lines)
            self.assertEqual(len(json.loads(result.read_text())['token_ids']), 1500)
        self.assertEqual(len(lines), 1, lines)
        self.assertRegex(lines[0], 'warning: the (text goes on|job ends) without the drafter on rank 2')  # a short text may end first
        self.assertEqual(out, alone)

    def strike_drafters(self, fault, drafters=1, **options):
        """Strikes the host of the drafters, which comes back during the text. That must cost no text, and only a line for each drafter."""
        text = [*TEXT, '-n', '6000', '-c', '6500']
        program = [*text, *['-md', str(DRAFT)] * drafters, '--layer-split', '0.5,0.5' + '/1' * drafters]
        code, lines, out = self.strike(program, 2, fault, **options)
        self.assertEqual(code, 0, lines)
        self.assertEqual(len(lines), drafters, lines)
        self.assertEqual(out, text_of(*text))

    def cut_for_a_while(self, host):
        """The link returns when the guards have given up their ranks."""
        cut(host)
        wait_until(lambda: not processes(host, 'yamata'))
        repair(host)

    def test_drafters_whose_link_returns_cost_no_text(self):
        for drafters, kind in some((2, TwoRanksOnTheLast), (1, emulation.Cluster)):
            with self.subTest(drafters=drafters):
                self.strike_drafters(self.cut_for_a_while, drafters, kind=kind)

    def test_drafter_whose_link_returns_twice_costs_no_text(self):
        def fault(host):
            cut(host)
            wait_until(self.job.misses_a_rank)
            repair(host)
            self.cut_for_a_while(host)
        self.strike_drafters(fault)

    def test_drafter_that_reaches_only_mpirun_costs_no_text(self):
        """It learns from mpirun that the head has left it out."""
        self.strike_drafters(lambda host: [cut_path(host, other) for other in self.cluster.hosts[:2]])

    def test_drafter_whose_host_is_stopped_and_goes_on_costs_no_text(self):
        def fault(host):
            there = host.processes()
            for process in there:
                os.kill(process, signal.SIGSTOP)
            wait_until(self.job.misses_a_rank)
            for process in there:
                os.kill(process, signal.SIGCONT)
        self.strike_drafters(fault)

    def test_interrupt_while_a_host_is_cut_off_ends_the_command(self):
        def fault(host):
            cut(host)
            wait_until(self.job.misses_a_rank)
            self.job.process.send_signal(signal.SIGINT)
        code, lines, _ = self.strike([*LONG, '-md', str(DRAFT), '--layer-split', '0.5,0.5/1'], 2, fault, returns=True)
        self.assertIn(code, (1, 130), lines)
        self.assertEqual(len(lines), 1, lines)

    def test_interrupt_before_a_cut_host_is_missed_writes_the_files(self):
        patient = [*LONG, '--timeout', str(GENEROUS_S)]
        for program in some([*patient, '-md', str(DRAFT), '--layer-split', '0.5,0.5/1'], patient):
            def fault(host):
                cut(host)
                self.job.process.send_signal(signal.SIGINT)
            with self.subTest(program=program), tempfile.TemporaryDirectory() as folder:
                result = pathlib.Path(folder) / 'result.json'
                code, lines, _ = self.strike([*program, '--json', str(result)], 2, fault, returns=True)
                self.assertIn(code, (1, 130), lines)
                self.assertEqual(lines, [])
                told = json.loads(result.read_text())
                self.assertEqual(told['finish_reason'], 'interrupted')
                self.assertEqual([rank['role'] for rank in told['per_rank']], ['head', 'stage', 'lost'])

    def test_cut_head_that_alone_holds_the_target_is_named_by_a_drafter(self):
        code, lines, _ = self.strike([*TEXT, '-n', ENDLESS, '-c', '500000', '-md', str(DRAFT), '--layer-split', '1/0.5,0.5'], 0, cut)
        self.expect_named(0, code, lines)

    def test_lost_idle_rank_is_missed_in_one_line_and_all_else_is_complete(self):
        text = [*TEXT, '-n', '1500', '-c', '2000']
        alone = subprocess.run(text, check=True, capture_output=True).stdout
        for fault in some(cut, send(signal.SIGKILL, 'yamata'), send(signal.SIGSTOP, 'yamata')):
            with self.subTest(fault=fault), tempfile.TemporaryDirectory() as folder:
                result = pathlib.Path(folder) / 'result.json'
                code, lines, out = self.strike([*text, '--json', str(result)], 2, fault, Job.read_a_third, FarHosts,
                                               returns=True)
                self.assertEqual(code, 0, lines)
                told = json.loads(result.read_text())
                self.assertTrue(told['layout_choice'].endswith('; n1, n2 are not used'), told['layout_choice'])
                self.assertEqual([rank['role'] for rank in told['per_rank']], ['head', 'idle', 'lost'])
                self.assertEqual(out, alone)
                self.assertRegex(lines[-1], '(text goes on|job ends) without rank 2, which has no part in it')

    def test_stopped_daemon_goes_on_and_the_text_is_complete(self):
        text = [*TEXT, '-n', '400']
        alone = subprocess.run(text, check=True, capture_output=True).stdout
        for rank in some(1, 0):
            with self.subTest(rank=rank):
                code, lines, out = self.strike([*text, *STAGES], rank, send(signal.SIGSTOP, 'orted'))
                self.assertEqual((code, lines), (0, []))
                self.assertEqual(out, alone)

    def test_killed_daemon_ends_the_command_and_is_named(self):
        drafter = [*TEXT, '-n', '6000', '-c', '6500', '-md', str(DRAFT), '--layer-split', '0.5,0.5/1']
        for program, rank in some((drafter, 2), (LONG, 1)):  # one that the text could do without, and a stage's
            with self.subTest(rank=rank):
                code, lines, _ = self.strike(program, rank, send(signal.SIGKILL, 'orted'))
                self.assertNotEqual(code, 0)  # mpirun chooses the code before it hears of Yamata's
                self.assertEqual(lines, [f"yamata: rank {rank} (n{rank}): the launcher's daemon on this machine has died, "
                                         'which ends the job'])


if __name__ == '__main__':
    main('faults', ThreeHosts)
