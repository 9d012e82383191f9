#!/usr/bin/env python3
"""A model that only the first of three emulated machines has: the others fetch their layers over ssh's network, in spite of lost power, a
killed head, two jobs at once, a full disk, a read-only home, and damaged copies; every text is that of the first machine alone."""
import subprocess

from machines_case import MODEL, TOKENS, OnMachines, main

FLAGS = f'-m {MODEL} -p "Once upon a time" -n {TOKENS} -t 1 --layer-split 1,1,1'
CACHE = '.cache/yamata/weights'


class Weights(OnMachines):
    RATE = 16  # Mbit/s: a third of the model takes two seconds

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for host in range(cls.COUNT):
            cls.cluster.tell('rate', host, 1000)
        done = cls.ada.run('yamata/launch/cluster setup hosts --yes 2>&1')
        assert done.returncode == 0, done.stdout
        for host in range(cls.COUNT):
            cls.cluster.tell('rate', host, cls.RATE)
        cls.bob = cls.machines.all[1]
        cls.expected = cls.ada.run(f'.local/lib/yamata/x86_64/yamata run -m {MODEL} -p "Once upon a time" -n {TOKENS} -t 1').stdout
        assert len(cls.expected) > 20

    def setUp(self):
        for machine in self.machines.all[1:]:
            self.on(machine, f'rm -rf {CACHE}')

    def start(self, how='', flags=''):
        """A job of the person's: with launch/batch, or `how` is 'run', with mpirun alone."""
        return subprocess.Popen(self.ada.inside(f'yamata/launch/cluster run hosts {"-- run" if how else ""} {FLAGS} {flags}'),
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def assert_text(self, job):
        out, error = job.communicate()
        self.assertEqual((job.returncode, out), (0, self.expected), error)

    def wait_until_it_fetches(self, job):
        """Until the second machine has something, but not all."""
        while self.bob.run(f'find {CACHE} -name have -size +0').stdout == '':
            self.assertIsNone(job.poll())

    def fetched(self):
        """Bytes, by rank, of a job that is run now."""
        self.assert_text(self.start('run', '--json out.json'))
        return [int(word) for word in self.on(self.ada, r'grep -o "\"fetched_bytes\": *[0-9]*" out.json | grep -o "[0-9]*$"').split()]

    def test_the_second_start_fetches_nothing(self):
        first, second = self.fetched(), self.fetched()
        self.assertEqual(first[0], 0)
        self.assertGreater(min(first[1:]), 100_000)
        self.assertEqual(second, [0, 0, 0])
        self.assertRegex(self.run_here('status hosts'), r'(?m)^n1 keeps layers of: .*tales-target.* \([1-9] of [0-9]+ MiB\)$')

    def test_lost_power_amid_it(self):
        job = self.start()
        self.wait_until_it_fetches(job)
        self.link(self.bob, 'down')
        self.bob.power_off()
        self.assert_text(job)
        self.link(self.bob, 'up')
        self.machines.boot(self.bob)
        self.bob.wait_until_it_answers()
        self.assert_text(self.start())

    def test_a_head_that_is_killed_amid_it(self):
        job = self.start('run')
        self.wait_until_it_fetches(job)
        self.on(self.ada, 'pkill -9 -x yamata || kill -9 $(cat /proc/[0-9]*/stat | grep "(yamata)" | cut -d" " -f1)')
        self.assertNotEqual(job.wait(), 0)
        job.communicate()
        self.assert_text(self.start('run'))

    def test_two_jobs_at_once(self):
        for job in [self.start(), self.start('run')]:
            self.assert_text(job)

    def test_a_full_disk(self):
        home = self.bob.person.home
        self.as_root(self.bob, f'mkdir -p {home}/.cache && mount -t tmpfs -o size=64k,uid={self.bob.person.uid} tmpfs {home}/.cache')
        try:
            job = self.start('run')
            out, error = job.communicate()
            self.assertNotEqual(job.returncode, 0)
            self.assertRegex(error, r'(?m)^yamata: rank 1 \(n1\)[^\n]*(MiB|KiB|bytes)[^\n]*$')
        finally:
            self.as_root(self.bob, f'umount {home}/.cache')

    def test_a_read_only_home(self):
        home = self.bob.person.home
        self.as_root(self.bob, f'mount --bind {home} {home} && mount -o remount,bind,ro {home}')
        try:
            job = self.start('run')
            error = job.communicate()[1]
            self.assertNotEqual(job.returncode, 0)
            self.assertRegex(error, r'(?m)^yamata: rank 1 \(n1\)[^\n]*--fetch memory')
            self.assert_text(self.start('run', '--fetch memory'))
        finally:
            self.as_root(self.bob, f'umount {home}')

    def test_a_flipped_byte_in_the_copy(self):
        self.assert_text(self.start('run'))
        self.on(self.bob, f'for part in {CACHE}/*/part-*.gguf; do size=$(stat -c %s $part); for i in 1 2 3 4 5 6 7; do '
                'printf "\\377" | dd of=$part bs=1 seek=$((size * i / 8)) conv=notrunc status=none; done; done')
        self.assert_text(self.start('run'))

    def test_fetching_can_be_forbidden(self):
        job = self.start('run', '--fetch never')
        error = job.communicate()[1]
        self.assertNotEqual(job.returncode, 0)
        self.assertRegex(error, r'(?m)^yamata: rank [12] \(n[12]\): cannot open ')


if __name__ == '__main__':
    main('weights_test', Weights)
