#!/usr/bin/env python3
"""Tests how the engine's lines come to those who wait for them: in pieces of any length, too long, faster than a client reads; and what is
joined when several wait."""
import asyncio
import json
import random
import sys
import types
import unittest
from unittest import mock

import scene  # noqa: F401  finds the modules
from serving import protocol
from serving.admission import Queue
from serving.answering import joined
from serving.http_request import HttpError
from serving.inbox import MOST_BYTES, Inbox
from serving.lines import Lines


class LinesTest(unittest.IsolatedAsyncioTestCase):
    async def taken(self, pieces, most=1000, take=None):
        got = []
        lines = Lines(take or got.append, most)
        for piece in pieces:
            lines.data_received(piece)
        lines.connection_lost(None)
        return got, await lines.ended

    async def test_pieces_change_nothing(self):
        text = b'one\n\nthree and more\n' + b'x' * 500 + b'\nno end'
        for seed in range(50):
            chance, rest, pieces = random.Random(seed), text, []
            while rest:
                count = chance.choice([1, 2, 7, 300])
                pieces.append(rest[:count])
                rest = rest[count:]
            self.assertEqual(await self.taken(pieces), (text.split(b'\n'), True), seed)

    async def test_behind_a_line_that_is_too_long_nothing_is_taken(self):
        self.assertEqual(await self.taken([b'a\n', b'x' * 600, b'x' * 600, b'\nb\n']), ([b'a'], False))

    async def test_an_error_of_the_taker_is_said_to_the_one_who_waits(self):
        def take(line):
            raise KeyError(line)
        with self.assertRaises(KeyError):
            await self.taken([b'a\nb\n'], take=take)


class InboxTest(unittest.IsolatedAsyncioTestCase):
    async def test_a_message_ends_the_wait_and_so_does_its_time(self):
        inbox = Inbox()
        self.assertFalse(await inbox.wait(1e-6))
        for patience in 1e6, None:
            asyncio.get_running_loop().call_soon(inbox.put, 0, {'is': 'text', 'text': 'a'})
            self.assertTrue(await inbox.wait(patience))
            self.assertTrue(await inbox.wait(1e-6))  # there is one
            self.assertEqual(inbox.take(), (0, {'is': 'text', 'text': 'a'}))
        self.assertFalse(await inbox.wait(1e-6))  # sooner than the timer that is left
        inbox.close()

    async def test_what_nobody_takes_overflows(self):
        inbox, called = Inbox(), []
        inbox.overflow = lambda: called.append(len(inbox.messages))
        message = {'is': 'text', 'text': 'x' * 1000, 'logprobs': [{'top': [{}] * 9}]}
        for _ in range(2 * MOST_BYTES // 1000):
            inbox.put(0, message)
            inbox.take()
        self.assertEqual(called, [])
        while not called:
            inbox.put(0, message)
        self.assertEqual(called, [MOST_BYTES // 2100 + 1])


class AdmissionTest(unittest.TestCase):
    def test_a_message_that_is_too_long_for_a_line_takes_no_slot(self):
        engine = types.SimpleNamespace(state='ready', ready={'slots': 1, 'context': 1 << 20}, waits_too_long=lambda: False)
        queue = Queue(engine, 1, metrics=None)
        with mock.patch.object(protocol, 'LINE_BYTES', 1000), self.assertRaises(HttpError) as error:
            queue.admit([protocol.submit('"' * 500, {})])
        self.assertEqual(error.exception.status, 413)
        self.assertEqual((queue.running, list(queue.waiting)), ([], []))


    def test_a_request_that_an_engine_at_its_end_does_not_take_waits_for_the_next_one(self):
        sent, lost = [], [True]

        def request(data, _):
            if lost:
                raise HttpError(503, 'it has ended', 'engine_lost')
            sent.append(data)
        engine = types.SimpleNamespace(state='ready', ready={'slots': 1}, waits_too_long=lambda: False, recovers=lambda: True,
                                       request=request)
        queue = Queue(engine, 1, metrics=None)
        queue.admit([protocol.submit('x', {})])
        self.assertEqual((len(queue.again), queue.running, queue.idle()), (1, [], False))
        lost.clear()
        queue.advance()
        self.assertEqual((len(queue.again), len(queue.running), len(sent)), (0, 1, 1))

    def test_a_message_is_encoded_once_and_gets_its_number_when_it_is_sent(self):
        sent = []
        engine = types.SimpleNamespace(state='ready', ready={'slots': 1}, waits_too_long=lambda: False,
                                       request=lambda data, _: sent.append(protocol.numbered(data, 7)))
        message = protocol.submit('an "é" and \ud800', {'seed': 3})
        with mock.patch.object(protocol, 'encoded', wraps=protocol.encoded) as encoded:
            Queue(engine, 1, metrics=None).admit([message])
        self.assertEqual((encoded.call_count, json.loads(sent[0])), (1, message | {'id': 7}))


class Joined(unittest.TestCase):
    def test_texts_of_one_kind_are_joined(self):
        call = {'tool_calls': [{'index': 0}]}
        deltas = [{'reasoning_content': 'a'}, {'content': 'b'}, {'content': 'c'}, call, call, {'content': 'd'}]
        self.assertEqual(joined(deltas), [{'reasoning_content': 'a'}, {'content': 'bc'}, call, call, {'content': 'd'}])


if __name__ == '__main__':
    scene.main(sys.argv[0])
