"""Scripts replace only files of the kind that they write, and never one that they read."""
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

from experiment_test import Folder, strategies

ROOT = pathlib.Path(__file__).resolve().parents[3]
MODELS = ROOT / 'models'
INFLATED = ['--dim', '512', '--layers', '8', '--heads', '8', '--kv-heads', '2', '--ffn', '768']
TRACE = {'traceEvents': [{'ph': 'M', 'pid': 0, 'args': {'name': 'rank 0'}},
                         {'ph': 'X', 'pid': 0, 'tid': 0, 'cat': 'run', 'name': 'run 1', 'ts': 0, 'dur': 9,
                          'args': {'run': 1, 'tokens': 3}}]}


class Outputs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / 'trace.json').write_text(json.dumps(TRACE))
        head = self.folder / 'head'
        head.mkdir()
        for name in ('model.safetensors', 'config.json'):
            (head / name).write_text('{}')
        for name in ('mine', 'mine.svg', 'mine.png'):
            (self.folder / name).write_text('my notes')

    def start(self, *words):
        environment = os.environ | {'YAMATA_TRAIN_AGAIN': '1', 'PYTHONPATH': str(self.folder)}  # installs nothing
        return subprocess.run([ROOT / 'launch' / words[0], *map(str, words[1:])], cwd=self.folder, env=environment, capture_output=True,
                              text=True, check=False)

    def test_file_of_another_kind_is_not_replaced(self):
        for words in (['draw-trace', 'trace.json', 'mine'], ['draw-trace', 'trace.json', 'mine.svg'],
                      ['plot-roofline', 'trace.json', '-o', 'mine.png'], ['heads-to-gguf', 'head', 'mine'],
                      ['inflate', MODELS / 'tales-target-q8_0.gguf', 'mine', *INFLATED],
                      ['inflate', MODELS / 'tales-dgf.safetensors', 'mine', *INFLATED],
                      ['write-texts', '-m', MODELS / 'tales-target-q8_0.gguf', '-o', 'mine', '--texts', '2'],
                      ['faults', '--here', '--csv', 'mine'], ['stress', '--csv', 'mine'],
                      ['gpu-check', '--emulated', '--built', '--build', '/dev/null', '--out', '.']):
            with self.subTest(words[0]):
                for name in ('gpu-check.json', 'gpu-check.md'):
                    (self.folder / name).write_text('my notes')
                before = {path: path.read_bytes() for path in self.folder.iterdir() if path.is_file()}
                done = self.start(*words)
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertRegex(done.stderr, rf'^{words[0]}: \S+ exists and is not a[^;]*, so it is not '
                                              r'replaced; choose another \w+[^;\n]*\n$')
                self.assertEqual(before, {path: path.read_bytes() for path in self.folder.iterdir() if path.is_file()})

    def test_text_that_looks_like_a_safetensors_file_is_not_replaced(self):
        for begin in (b'int f() {\n  return 1;\n}\n', b'\4\0\0\0\0\0\0\0{int', b'\2\0\0\0\0\0\0\0[]', b'\0\1\0\0\0\0\0\0{}'):
            (self.folder / 's.cpp').write_bytes(begin)
            done = self.start('inflate', MODELS / 'tales-dgf.safetensors', 's.cpp', *INFLATED)
            self.assertEqual((done.returncode, done.stderr), (1, 'inflate: s.cpp exists and is not a safetensors file, so it is not '
                                                                 'replaced; choose another place\n'))
            self.assertEqual((self.folder / 's.cpp').read_bytes(), begin)

    def test_older_file_of_the_same_kind_is_replaced(self):
        (self.folder / 'empty.svg').touch()
        (self.folder / 'old.svg').write_text('<svg></svg>')
        for name in ('empty.svg', 'old.svg', 'old.svg', '/dev/null'):
            done = self.start('draw-trace', 'trace.json', name)
            self.assertEqual((done.returncode, done.stderr), (0, ''))
        self.assertIn('run 1', (self.folder / 'old.svg').read_text())
        (self.folder / 'old.gguf').write_bytes(b'GGUF')
        (self.folder / 'old.safetensors').write_bytes(b'\2\0\0\0\0\0\0\0{}')
        for source, name in (('tales-target-q8_0.gguf', 'old.gguf'), ('tales-dgf.safetensors', 'old.safetensors')):
            done = self.start('inflate', MODELS / source, name, *INFLATED)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertGreater((self.folder / name).stat().st_size, 1000)

    def test_head_that_is_converted_is_not_replaced_before_numpy_is_needed(self):
        head = self.folder / 'head'
        (self.folder / 'link').symlink_to(head / 'config.json')
        (self.folder / 'hard').hardlink_to(head / 'model.safetensors')
        for source in ('head', head, './head'):
            for out, read in (('link', 'config.json'), ('hard', 'model.safetensors'), ('./head/config.json', 'config.json')):
                done = self.start('heads-to-gguf', source, out)
                self.assertEqual((done.returncode, done.stderr),
                                 (1, f'heads-to-gguf: {pathlib.Path(source) / read} would be overwritten; write to another file\n'))


class ExperimentFolder(Folder):
    def test_folder_with_other_files_is_refused(self):
        (self.path / 'out').mkdir()
        for name in ('thesis.tex', 'experiment.toml', 'runs.txt', 'lock'):
            (self.path / 'out' / name).write_text('mine')
            self.assertEqual(self.run_to_end(strategies('a'), '--extend'), 1, self.said)
            self.assertIn('out has other files and is no results folder; name a new one with --out', self.said)
            self.assertEqual(os.listdir(self.path / 'out'), [name])
            self.assertEqual((self.path / 'out' / name).read_text(), 'mine')
            (self.path / 'out' / name).unlink()

    def test_table_of_another_program_is_refused(self):
        (self.path / 'out').mkdir()
        for content in (b'run,text\n1,"two\nlines"\n', b'run', b'\xff\xfe\n'):
            (self.path / 'out' / 'results.csv').write_bytes(content)
            self.assertEqual(self.run_to_end(strategies('a')), 2, self.said)
            self.assertIn('out/results.csv is not a table of launch/experiment; name a folder that it wrote', self.said)
            self.assertEqual(self.said.count('\n'), 1, self.said)
            self.assertEqual((self.path / 'out' / 'results.csv').read_bytes(), content)
            self.assertEqual(os.listdir(self.path / 'out'), ['results.csv'])

    def test_lock_that_has_content_keeps_it(self):
        (self.path / 'out' / 'runs').mkdir(parents=True)
        (self.path / 'out' / 'lock').write_text('mine')
        self.assertEqual(self.run_to_end(strategies('a')), 0, self.said)
        self.assertEqual((self.path / 'out' / 'lock').read_text(), 'mine')


if __name__ == '__main__':
    unittest.main()
