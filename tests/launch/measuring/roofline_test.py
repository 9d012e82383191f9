"""Tests launch/plot-roofline: positions of its points and lines, and errors for unsuitable files."""
import importlib.util
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

LAUNCH = pathlib.Path(__file__).resolve().parents[3] / 'launch'
sys.dont_write_bytecode = True
sys.path.insert(0, str(LAUNCH / 'python'))
import start  # noqa: F401
from measuring import roofline

PROFILE = {'machine': {'cpu': 'a processor', 'isa': 'avx2'},
           'model': {'type': 'llama 8M Q8_0', 'threads': 2},
           'threads': [{'threads': 1, 'read_bytes_per_s': 5e9, 'int8_ops_per_s': 1e11, 'float_ops_per_s': 1e10},
                       {'threads': 2, 'read_bytes_per_s': 1e10, 'int8_ops_per_s': 2e11, 'float_ops_per_s': 2e10}],
           'widths': [{'width': 1, 'bytes': 1e6, 'ops': 2e6, 'int8_ops': 1.9e6, 'float_ops': 1e5, 'time_s': 2e-4},
                      {'width': 8, 'bytes': 1e6, 'ops': 16e6, 'int8_ops': 15e6, 'float_ops': 1e6, 'time_s': 4e-4}]}


class Roofline(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def plot(self, *arguments):
        return subprocess.run([LAUNCH / 'plot-roofline', *map(str, arguments)], capture_output=True, text=True, check=False)

    def write(self, name, content):
        path = self.folder / name
        path.write_text(content)
        return path

    def test_ceiling_is_that_of_all_threads_and_of_the_weights_kind(self):
        self.assertEqual(roofline.ceiling_of(PROFILE), (10, 200))
        floats = json.loads(json.dumps(PROFILE))
        floats['widths'][0] |= {'int8_ops': 0, 'float_ops': 2e6}
        self.assertEqual(roofline.ceiling_of(floats), (10, 20))

    def test_points_are_operations_per_byte_and_per_second(self):
        points = roofline.points_of(PROFILE)
        self.assertEqual([width for _, _, width in points], [1, 8])
        self.assertAlmostEqual(points[0][0], 2)
        self.assertAlmostEqual(points[1][1], 40)

    def test_file_that_is_no_profile_is_named(self):
        out = self.folder / 'r.png'
        absent = self.plot(self.folder / 'absent.json', '-o', out)
        self.assertEqual(absent.returncode, 2)
        self.assertIn('absent.json', absent.stderr)
        for name, content in (('text.json', 'hello'), ('machine.json', '{"threads": []}'), ('list.json', '[]')):
            refused = self.plot(self.write(name, content), '-o', out)
            self.assertEqual(refused.returncode, 2, refused.stderr)
            self.assertIn(name, refused.stderr)
            self.assertEqual(refused.stderr.count('\n'), 1, refused.stderr)
        self.assertFalse(out.exists())

    def test_part_of_a_profile_that_is_missing_or_of_another_type_is_named(self):
        for path, value, fault in ((('machine',), None, 'machine is missing'), (('threads',), None, 'threads is missing'),
                                   (('model',), None, 'model is missing'), (('machine',), 'x86', 'machine is not an object'),
                                   (('threads',), 5, 'threads is not a list, or empty'),
                                   (('threads',), [], 'threads is not a list, or empty'),
                                   (('model',), 3, 'model is not an object'), (('widths', 1), 7, 'widths[1] is not an object'),
                                   (('widths', 1, 'time_s'), 0, 'widths[1].time_s is 0, not a number above 0'),
                                   (('widths', 0, 'bytes'), -1, 'widths[0].bytes is -1, not a number above 0'),
                                   (('threads', 1, 'read_bytes_per_s'), '5', 'threads[1].read_bytes_per_s is "5", not a number above 0')):
            with self.subTest(fault):
                profile = json.loads(json.dumps(PROFILE))
                part = profile
                for key in path[:-1]:
                    part = part[key]
                part[path[-1]] = value
                if value is None:
                    del part[path[-1]]
                refused = self.plot(self.write('p.json', json.dumps(profile)), '-o', self.folder / 'r.png')
                self.assertEqual((refused.returncode, refused.stderr),
                                 (2, f'plot-roofline: {self.folder}/p.json is not a profile of a model: {fault}; '
                                     'name a file that yamata profile -m MODEL --json wrote\n'))

    def test_profile_is_not_overwritten(self):
        profile = self.write('p.json', json.dumps(PROFILE))
        (self.folder / 'link.svg').symlink_to(profile)
        refused = self.plot(self.write('other.json', json.dumps(PROFILE)), profile, '-o', self.folder / 'link.svg')
        self.assertEqual(refused.returncode, 1, refused.stderr)
        self.assertEqual(refused.stderr, f'plot-roofline: {profile} would be overwritten; write to another file\n')

    def test_other_formats_are_refused(self):
        for name in ('r.txt', 'r.jpg', 'r'):
            refused = self.plot(self.write('p.json', json.dumps(PROFILE)), '-o', self.folder / name)
            self.assertEqual(refused.returncode, 1, refused.stderr)
            self.assertIn(f'{name}: name it .png, .svg or .pdf', refused.stderr)
            self.assertEqual(refused.stderr.count('\n'), 1, refused.stderr)

    @unittest.skipUnless(importlib.util.find_spec('matplotlib'), 'matplotlib is not here')
    def test_profiles_are_drawn_into_one_figure(self):
        profile = self.write('p.json', json.dumps(PROFILE))
        for suffix, begin in (('png', b'\x89PNG'), ('svg', b'<?xml')):
            out = self.folder / f'r.{suffix}'
            done = self.plot(profile, profile, '-o', out)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertTrue(out.read_bytes().startswith(begin))

    @unittest.skipUnless(importlib.util.find_spec('matplotlib'), 'matplotlib is not here')
    def test_older_figure_stays_when_the_new_one_cannot_be_written(self):
        profile = self.write('p.json', json.dumps(PROFILE))
        for suffix in ('png', 'svg', 'pdf'):
            out = self.folder / f'r.{suffix}'
            self.assertEqual(self.plot(profile, '-o', out).returncode, 0)
            older = out.read_bytes()
            done = subprocess.run(['prlimit', f'--fsize={len(older) // 2}', LAUNCH / 'plot-roofline', profile, '-o', out],
                                  capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stderr),
                             (1, f'plot-roofline: {out} cannot be written (File too large); raise ulimit -f\n'))
            self.assertEqual(out.read_bytes(), older)
        self.assertEqual({path.name for path in self.folder.iterdir()}, {'p.json', 'r.png', 'r.svg', 'r.pdf'})


if __name__ == '__main__':
    unittest.main()
