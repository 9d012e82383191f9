"""Tests launch/draw-trace: what it draws, and errors for unsuitable files and times."""
import json
import pathlib
import subprocess
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[3] / 'launch' / 'draw-trace'
EVENTS = [{'ph': 'M', 'pid': 0, 'args': {'name': 'rank 0, head'}},
          {'ph': 'X', 'pid': 0, 'tid': 0, 'cat': 'run', 'name': 'run 1', 'ts': 1000, 'dur': 4000, 'args': {'run': 1, 'tokens': 3}}]


class DrawTrace(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.out = self.folder / 'out.svg'
        self.trace = self.write('trace.json', json.dumps({'traceEvents': EVENTS}))

    def write(self, name, content):
        path = self.folder / name
        path.write_text(content)
        return path

    def draw(self, *arguments):
        return subprocess.run([SCRIPT, *map(str, arguments)], capture_output=True, text=True, check=False)

    def refused(self, code, words, *arguments):
        done = self.draw(*arguments)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertEqual(done.stderr.count('\n'), 1, done.stderr)
        for word in ('draw-trace: ', *words):
            self.assertIn(word, done.stderr)
        self.assertFalse(self.out.exists())

    def test_runs_are_drawn(self):
        done = self.draw(self.trace, self.out, '--from', 0, '--to', 5)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn('run 1: 3 tokens, 4.00 ms', self.out.read_text())

    def test_latencies_of_cancellations_are_printed(self):
        def event(kind, cat, pid, ts, run, **more):
            return {'ph': kind, 'pid': pid, 'tid': 0, 'cat': cat, 'name': cat, 'ts': ts, 'args': {'run': run, 'tokens': 1}, **more}
        ranks = [{'ph': 'M', 'pid': pid, 'args': {'name': f'rank {pid}'}} for pid in range(3)]
        events = [event('i', 'cancel', 0, 1000, 7), event('i', 'cancel', 1, 3000, 7), event('i', 'cancel', 2, 1500, 7),
                  event('i', 'cancel', 1, 9000, 8),  # not decided by the head
                  event('X', 'skipped', 1, 2500, 7, dur=1500), event('i', 'skipped', 2, 5000, 7)]
        done = self.draw(self.write('cancelled.json', json.dumps({'traceEvents': ranks + events})), self.out)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, 'stages knew of 2 cancellations that they obeyed after 1.25 ms (mean)\n'
                                      '2 cancellations took effect after 3.50 ms (median), 3.00 ms (99 of 100)\n')

    def test_file_that_is_no_trace_is_named(self):
        self.refused(2, ['absent.json', 'No such file', '--trace'], self.folder / 'absent.json', self.out)
        no_process = json.dumps({'traceEvents': EVENTS[1:]})
        for content in ('hello', '[]', '{"text": 1}', '{"traceEvents": [1]}', '{"traceEvents": []}', no_process):
            self.refused(2, ['other.json', '--trace'], self.write('other.json', content), self.out)

    def test_event_that_cannot_be_drawn_is_named(self):
        cancelled = {'ph': 'i', 'pid': 0, 'tid': 0, 'cat': 'cancel', 'name': 'cancel 1', 'ts': 2000, 'args': {'run': 1, 'tokens': 3}}
        for event, change, fault in ((1, {'args': {'tokens': 3}}, 'traceEvents[1].args.run is missing'),
                                     (2, {'args': {'run': [1], 'tokens': 3}},
                                      'traceEvents[2].args.run is [1], not a whole number from 0 up'),
                                     (1, {'args': [1]}, 'traceEvents[1].args is not an object'),
                                     (1, {'ts': '1000'}, 'traceEvents[1].ts is "1000", not a number from 0 up'),
                                     (2, {'ts': float('nan')}, 'traceEvents[2].ts is NaN, not a number from 0 up'),
                                     (1, {'dur': None}, 'traceEvents[1].dur is null, not a number from 0 up'),
                                     (1, {'name': {}}, 'traceEvents[1].name is {}, not a text'),
                                     (1, {'cat': []}, 'traceEvents[1].cat is [], not a text'),
                                     (1, {'pid': {}}, 'traceEvents[1].pid is {}, not a whole number from 0 up'),
                                     (1, {'ph': 5}, 'traceEvents[1].ph is 5, not a text'),
                                     (1, {'pid': 4}, 'traceEvents[1].pid is 4, which has no name'),
                                     (0, {'args': {'name': 5}}, 'traceEvents[0].args.name is 5, not a text')):
            with self.subTest(fault):
                events = [*EVENTS, cancelled]
                events[event] = events[event] | change
                self.refused(2, [f'other.json is not a trace of yamata: {fault}; name a file that yamata run --trace wrote\n'],
                             self.write('other.json', json.dumps({'traceEvents': events})), self.out)

    def test_times_outside_the_trace_are_refused(self):
        for begin in (5, 99, -1):
            self.refused(1, ['--from', '5.0 ms'], self.trace, self.out, '--from', begin)
        for end in (2, 1, 0):
            self.refused(1, ['--to', '--from 2'], self.trace, self.out, '--from', 2, '--to', end)

    def test_trace_is_not_overwritten(self):
        (self.folder / 'link.svg').symlink_to(self.trace)
        (self.folder / 'hard.svg').hardlink_to(self.trace)
        for out in (self.trace, self.folder / 'link.svg', self.folder / 'hard.svg', self.folder / '..' / self.folder.name / 'trace.json'):
            self.refused(1, ['trace.json would be overwritten', 'write to another file'], self.trace, out)
        self.assertEqual(json.loads(self.trace.read_text()), {'traceEvents': EVENTS})

    def test_other_formats_than_svg_are_refused(self):
        for name in ('out.png', 'out.PDF', 'out.svg.gz'):
            self.refused(1, [name, 'only SVG', 'name it .svg'], self.trace, self.folder / name)
            self.assertFalse((self.folder / name).exists())

    def test_place_that_cannot_be_written_is_named(self):
        self.refused(1, ['absent/out.svg', 'No such file', 'choose another place'], self.trace, self.folder / 'absent' / 'out.svg')

    def test_older_picture_stays_when_the_new_one_cannot_be_written(self):
        self.assertEqual(self.draw(self.trace, self.out).returncode, 0)
        older = self.out.read_bytes()
        limit = ['prlimit', f'--fsize={len(older) // 2}']
        done = subprocess.run([*limit, SCRIPT, self.trace, self.out], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr),
                         (1, f'draw-trace: {self.out} cannot be written (File too large); raise ulimit -f\n'))
        self.assertEqual(self.out.read_bytes(), older)
        self.assertEqual({path.name for path in self.folder.iterdir()}, {'out.svg', 'trace.json'})

    def test_picture_goes_into_a_pipe(self):
        self.assertIn('run 1: 3 tokens', self.draw(self.trace, '/dev/stdout').stdout)


if __name__ == '__main__':
    unittest.main()
