"""A real mpirun over two emulated hosts writes the same text as one process, and leaves nothing behind. Exit code 77 if this machine cannot
emulate hosts: the test is then skipped, with the reason."""
import argparse
import io
import itertools
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time
import unittest
import unittest.mock

from support import DRAFT, PROGRAM, ROOT, TARGET, emulation, main, script
from emulation.flags import values

TEXT = ['-p', 'Once upon a time', '-n', '24', '-t', '1', '--ignore-eos']

ENDLESS = [PROGRAM, 'run', '-m', TARGET, *TEXT, '-n', '100000', '-c', '110000']


class Quantities(unittest.TestCase):
    def test_units_are_read_and_others_refused(self):
        self.assertEqual(values('rate')('1gbit,100mbit,64kbit,5mbit'), [1000, 100, 0.064, 5])
        self.assertEqual(values('delay')('0.1ms,100us'), [0.1, 0.1])
        self.assertEqual(values('cpu')('20,30%'), [20, 30])
        self.assertEqual(values('slow')('2.5'), [2.5])
        self.assertEqual(values('jitter')('1ms'), [1])
        self.assertEqual(values('loss')('0.5,1%'), [0.5, 1])
        for kind, word in (('rate', '5 apples'), ('rate', '5'), ('rate', '1.2.3mbit'), ('delay', '0.1'), ('slow', '5%')):
            with self.assertRaisesRegex(argparse.ArgumentTypeError, f"'{word}' is no {kind}; write a number"):
                values(kind)(word)

    def test_more_than_the_core_of_a_host_is_refused(self):
        done = subprocess.run([ROOT / 'launch' / 'emulate', '--hosts', '2', '--cpu', '100,500', '--', 'true'],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(len(done.stderr.splitlines()), 1)
        self.assertIn('--cpu must be at most 100', done.stderr)

    def test_links_that_lose_everything_are_refused(self):
        done = subprocess.run([ROOT / 'launch' / 'emulate', '--hosts', '2', '--loss', '1,100', '--', 'true'], capture_output=True,
                              text=True)
        self.assertEqual((done.returncode, done.stderr.splitlines()),
                         (1, ['emulate: --loss must be below 100; see launch/emulate --help']))

    def test_mpiruns_noise_is_left_out(self):
        shown = io.BytesIO()
        words = (b'yamata: a line\n[vm:7] plm:rsh: Warning: setpgid(9,9) failed in parent with errno=Permission denied(13)\n'
                 b'[warn] Epoll MOD(1) on fd 27 failed.  Old events were 6\nthe last, without an end')
        script('emulate').pass_on(io.BytesIO(words), shown)
        self.assertEqual(shown.getvalue(), b'yamata: a line\nthe last, without an end')

    def test_interrupt_is_passed_on_at_once_unless_the_terminal_has_done_so(self):
        calls = []

        class Job:
            def terminate(self):
                calls.append('terminate')

            def kill(self):
                calls.append('kill')

            def wait(self, timeout):
                calls.append('wait')

        end = script('emulate').end
        end(Job(), told=False)
        self.assertEqual(calls, ['terminate', 'wait'])
        calls.clear()
        end(Job(), told=True)
        self.assertEqual(calls, ['wait'])

    def test_closed_terminal_tells_mpirun_unless_this_process_is_the_first_in_it(self):
        reaches_job = script('emulate').reaches_job
        for first, told in ((os.getpid(), False), (os.getppid(), True)):
            with unittest.mock.patch('os.getsid', return_value=first):
                self.assertEqual(reaches_job(signal.SIGHUP), told)
        self.assertTrue(reaches_job(signal.SIGINT))
        self.assertFalse(reaches_job(signal.SIGTERM))

    def test_quota_keeps_the_share_and_the_kernels_least(self):
        self.assertEqual(emulation.quota(20), (1000, 5000))
        self.assertEqual(emulation.quota(100), (5000, 5000))
        share, period = emulation.quota(2.5)
        self.assertEqual((share, period), (1000, 40000))

    def test_values_are_for_all_hosts_or_for_each(self):
        self.assertEqual(emulation.spread([5], 3), [5, 5, 5])
        self.assertEqual(emulation.spread([], 2), [None, None])
        self.assertRaises(emulation.EmulationError, emulation.spread, [1, 2], 3)

    def test_unlike_clusters_keep_what_they_measure_apart(self):
        limits = {'cpu': [20], 'rate': [1000], 'delay': [1], 'slow': [5]}

        def folder(**others):
            return emulation.cache_folder(*(emulation.spread(others.get(key, values), 2) for key, values in limits.items()))

        self.assertEqual(folder(), folder(slow=[5, 5]))
        others = [folder(cpu=[30]), folder(cpu=[20, 30]), folder(rate=[100]), folder(delay=[2]), folder(slow=[5, 4]), folder(slow=[])]
        self.assertEqual(len({folder(), *others}), 1 + len(others))


class TwoHosts(unittest.TestCase):
    def test_text_is_that_of_one_process_and_nothing_is_left(self):
        with tempfile.TemporaryDirectory() as folder:
            result = pathlib.Path(folder) / 'result.json'
            results = []
            for command in ([PROGRAM], [ROOT / 'launch' / 'emulate', '--hosts', '2', '--cpu', '50', '--rate', '1gbit', '--delay', '0.1ms',
                                        '--', PROGRAM]):
                flags = ['-md', DRAFT, '--layer-split', '1/1'] if len(command) > 1 else []
                with subprocess.Popen([*command, 'run', '-m', TARGET, *TEXT, *flags, '--json', result],
                                      stdout=subprocess.DEVNULL) as process:
                    self.assertEqual(process.wait(timeout=120), 0)
                results.append(json.loads(result.read_text()))
        self.assertEqual(results[0]['token_ids'], results[1]['token_ids'])
        self.assertEqual([rank['host'] for rank in results[1]['per_rank']], ['n0', 'n1'])
        self.assertEqual(sorted(rank['role'] for rank in results[1]['per_rank']), ['drafter', 'head'])
        self.assertEqual([name for owner, name in emulation.remains() if owner == process.pid], [])

    def test_text_is_the_same_on_links_that_lose_and_delay_packets_at_random(self):
        program = [PROGRAM, 'run', '-m', TARGET, *TEXT]
        alone = subprocess.run(program, check=True, capture_output=True).stdout
        for loss in 0, 5:
            with self.subTest(loss=loss), emulation.Cluster(2, delay=[1], jitter=[2], loss=[loss]) as cluster:
                job = cluster.start([*map(str, program), '--layer-split', '1,1'], stdout=subprocess.PIPE)
                self.assertEqual((job.communicate()[0], job.returncode), (alone, 0))
                resent = ['TCPLostRetransmit', 'TCPFastRetrans']
                late = ['TCPLossProbes', 'TCPTimeouts']  # on a busy machine without a loss, too
                self.assertGreater(counted(cluster, *resent, *late), 0) if loss else self.assertEqual(counted(cluster, *resent), 0)
                self.assertEqual(counted(cluster, 'TCPSACKReorder', 'TCPTSReorder'), 0)

    def test_signal_that_asks_for_the_end_ends_the_job_as_ctrl_c_does(self):
        for send, number in itertools.product((os.kill, os.killpg), (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)):
            with self.subTest(send=send, number=number), tempfile.TemporaryDirectory() as folder:
                result = pathlib.Path(folder) / 'result.json'
                emulate = subprocess.Popen([ROOT / 'launch' / 'emulate', '--hosts', '2', '--', *ENDLESS, '--json', result],
                                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True)
                self.addCleanup(emulate.kill)
                self.assertTrue(emulate.stdout.read(100))
                send(emulate.pid, number)
                emulate.communicate(timeout=120)
                self.assertEqual(emulate.returncode, 130)
                self.assertEqual(json.loads(result.read_text())['finish_reason'], 'interrupted')

    def test_closed_streams_do_not_stop_it(self):
        for closed in '2>&-', '<&-', '<&- 2>&-':
            with self.subTest(closed=closed):
                command = [ROOT / 'launch' / 'emulate', '--hosts', '2', '--', 'hostname']
                done = subprocess.run(['sh', '-c', f'exec "$0" "$@" {closed}', *command], stdout=subprocess.PIPE, text=True)
                self.assertEqual((done.returncode, sorted(done.stdout.split())), (0, ['n0', 'n1']))

    def test_whoever_kills_it_nothing_is_left(self):
        self.assert_nothing_is_left_of(lambda emulate: None)

    def test_what_is_left_without_a_keeper_the_next_cluster_clears(self):
        def clear(emulate):
            self.assertTrue(running(emulate))
            emulation.clean()
        self.assert_nothing_is_left_of(clear, 'SIGKILL')

    def assert_nothing_is_left_of(self, clear, to_keeper='SIGCONT'):
        """Kills the emulation of a job, sends a signal to its keeper, and checks that nothing is left."""
        emulate = subprocess.Popen([ROOT / 'launch' / 'emulate', '--hosts', '2', '--', *ENDLESS], stdout=subprocess.PIPE)
        with emulate:
            self.assertTrue(emulate.stdout.read(100))
            keeper = [process for process in running(emulate) if b'--keep' in words_of(process)]
            self.assertEqual(len(keeper), 1)
            self.assertEqual(sum(words_of(process)[0] == b'mpirun' for process in running(emulate)), 1)
            os.kill(keeper[0], getattr(signal, to_keeper))
            emulate.kill()
        clear(emulate)
        end = time.monotonic() + 60
        while (left := (running(emulate), [name for owner, name in emulation.remains() if owner == emulate.pid])) != ([], []):
            self.assertLess(time.monotonic(), end, left)
            time.sleep(0.02)


def counted(cluster, *names):
    """The sum of these counters of the kernel on all hosts."""
    tables = [emulation.run(['ip', 'netns', 'exec', host.namespace, 'cat', '/proc/net/netstat']).stdout for host in cluster.hosts]
    total = 0
    for table in tables:
        keys, values = (line.split() for line in table.splitlines()[:2])
        total += sum(int(value) for key, value in zip(keys, values) if key in names)
    return total


def words_of(process):
    try:
        return pathlib.Path(f'/proc/{process}/cmdline').read_bytes().split(b'\0')
    except OSError:
        return [b'']


def running(emulate):
    """Processes that belong to an emulated cluster: they have its name in their arguments, or run in its namespaces."""
    name = f'{emulation.PREFIX}{emulate.pid}'
    inside = [process for host in ('n0', 'n1', 'desk') for process in emulation.Host(name, host).processes()]
    outside = [int(entry.name) for entry in pathlib.Path('/proc').glob('[0-9]*') if name.encode() in words_of(entry.name)]
    return [process for process in {*inside, *outside} if emulation.runs(process)]


if __name__ == '__main__':
    main('two hosts', TwoHosts)
