#!/usr/bin/env python3
"""Tests of which machines take part in a job after a loss, and with which shares."""
import asyncio
import sys
import types
import unittest
import unittest.mock

import scene
from serving import job, machines, shares


class TakingBack(unittest.TestCase):
    """When a machine that was lost takes part again."""

    def setUp(self):
        self.now = 1000.0
        clock = types.SimpleNamespace(monotonic=lambda: self.now)
        for patched in unittest.mock.patch.object(machines, 'time', clock), unittest.mock.patch.object(job, 'TICK_S', 0.001):
            patched.start()
            self.addCleanup(patched.stop)
        self.machine = machines.Machine('127.0.0.2', [])

    def lose_after(self, seconds):
        """Returns how long it has to answer."""
        self.now += seconds
        self.machine.lose('is silent')
        self.assertFalse(self.machine.here)
        self.machine.come()
        return self.machine.wait_s

    def test_losses_that_follow_soon_double_the_wait(self):
        self.assertEqual([self.lose_after(seconds) for seconds in (1, 1, 150, 50, 1000, 1)], [10, 20, 40, 80, 10, 20])
        self.assertEqual([self.lose_after(1) for _ in range(12)][-1], machines.LONGEST_S)

    def test_it_must_have_answered_for_that_long(self):
        self.machine.lose('is silent')
        self.assertFalse(self.machine.is_due())
        self.machine.answers = self.now
        self.now += machines.TAKE_BACK_S - 0.1
        self.assertFalse(self.machine.is_due())
        self.now += 0.1
        self.assertTrue(self.machine.is_due())

    def test_open_texts_are_not_interrupted(self):
        async def watch():
            its = job.Job(job.Plan(None, [], machines.Machines([machines.Machine('127.0.0.1', []), self.machine])), None, print)
            self.machine.lose('is silent')
            self.machine.wait_s, its.state, asked, taken = 0, 'ready', [], []

            def is_idle():
                asked.append(len(asked))
                return len(asked) > 3
            its.idle, its.take_back = is_idle, lambda due: taken.append((len(asked), due))
            task = asyncio.create_task(its.watch_machines())
            while not taken:
                await asyncio.sleep(0.001)
            task.cancel()
            return taken
        self.assertEqual(asyncio.run(watch())[0], (4, [self.machine]))


class Shares(unittest.TestCase):
    RANKS = [{'rank': 0, 'role': 'head', 'layers': '0-3', 'share': 1}, {'rank': 1, 'role': 'stage', 'layers': '4-9', 'share': .5},
             {'rank': 2, 'role': 'drafter', 'layers': '', 'share': 1}, {'rank': 3, 'role': 'stage', 'layers': '4-9', 'share': .5}]

    def test_groups_and_drafters_stay(self):
        self.assertEqual(shares.remaining(self.RANKS, [0, 1, 2, 3]), ([0, 1, 3, 2], '4.0000,3.0000+3.0000/1'))
        self.assertEqual(shares.remaining(self.RANKS, [0, 2, 3]), ([0, 3, 2], '4.0000,3.0000/1'))
        self.assertEqual(shares.remaining(self.RANKS, [1, 3]), ([1, 3], '3.0000+3.0000'))

    def test_a_rank_that_did_nothing_needs_a_new_split(self):
        idle = [*self.RANKS, {'rank': 4, 'role': 'idle', 'layers': ''}]
        self.assertEqual(shares.remaining(idle, [0, 2, 4]), ([0, 2, 4], None))
        self.assertEqual(shares.remaining(self.RANKS, [2]), ([2], None))

    def test_a_single_layer_counts(self):
        self.assertEqual(shares.layers_of({'layers': '7'}), 1)


if __name__ == '__main__':
    scene.main(sys.argv[0])
