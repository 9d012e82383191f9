"""Tests how the scripts of training start: Ctrl-C during an import, and files that are missing, without PyTorch."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import zipfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import interrupted_import

LAUNCH = pathlib.Path(__file__).resolve().parents[3] / 'launch'


class Start(unittest.TestCase):
    def setUp(self):
        kept = tempfile.TemporaryDirectory()
        self.addCleanup(kept.cleanup)
        self.folder = pathlib.Path(kept.name)

    def start(self, script, *arguments, **modules):
        """Runs a script with modules of this content."""
        for name, content in modules.items():
            (self.folder / f'{name}.py').write_text(content)
        (self.folder / 'yamata').write_text('')
        environment = os.environ | {'PYTHONPATH': str(self.folder), 'YAMATA_TRAIN_AGAIN': '1',  # installs nothing
                                    'YAMATA_BUILD': str(self.folder)}
        return subprocess.run([sys.executable, LAUNCH / script, *arguments], env=environment, capture_output=True, text=True, check=False)

    def test_ctrl_c_during_an_import_ends_with_130_and_no_traceback(self):
        (self.folder / 'file').write_text('x')
        (self.folder / 'config.json').write_text('{}')
        file = str(self.folder / 'file')
        for script, arguments in (('train-heads', ['medusa', '-m', file, '-f', file, '-o', str(self.folder / 'out')]),
                                  ('write-texts', ['-m', file, '-o', str(self.folder / 'out.st'), '--texts', '2']),
                                  ('heads-to-gguf', [file, str(self.folder / 'out.gguf')])):
            done = self.start(script, *arguments, torch=interrupted_import.SOURCE, gguf=interrupted_import.SOURCE, numpy='')
            self.assertEqual((done.returncode, done.stderr), (130, f'{script}: interrupted\n'))

    def test_missing_files_are_named_before_pytorch_is_needed(self):
        (self.folder / 'file').write_text('x')
        for wrong in ('-m', '-f', '--held-out', '--from'):
            flags = {'-m': 'file', '-f': 'file', '--held-out': 'file', '--from': 'file'} | {wrong: 'absent'}
            words = [word for flag, name in flags.items() for word in (flag, str(self.folder / name))]
            done = self.start('train-heads', 'medusa', *words, '-o', str(self.folder / 'out'))
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertRegex(done.stderr, f'^train-heads: {wrong}: {self.folder / "absent"} does not exist; name [^\n]*\n$')

    def test_empty_names_and_files_in_the_wrong_place_are_named(self):
        file = self.folder / 'file'
        file.write_text('x')
        head = self.folder / 'head'
        head.mkdir()
        empty = self.folder / 'empty'
        empty.mkdir()
        for name in ('model.safetensors', 'config.json'):
            (head / name).write_text('x')
        flags = {'-m': file, '-f': file, '-o': self.folder / 'out', '--held-out': '0.1', '--from': head}
        for wrong, value, code, said in (('-m', '', 1, '-m is empty; name '), ('-f', '', 1, '-f is empty; name '),
                                         ('-o', '', 1, '-o is empty; name '), ('--from', '', 1, '--from is empty; name '),
                                         ('--from', file, 2, f'--from: {file} is no folder; name the folder of a head'),
                                         ('--from', empty, 2, f'{empty} has no model.safetensors and no config.json; name the folder of'),
                                         ('--held-out', file, 1, f'--held-out: {file} is also one of -f; name a file with other texts'),
                                         ('--held-out', '0', 1, 'argument --held-out: 0 leaves no text for the evaluation; give')):
            done = self.start('train-heads', 'medusa', *(str(word) for pair in (flags | {wrong: value}).items() for word in pair))
            self.assertEqual((done.returncode, done.stderr.count('\n')), (code, 1), done.stderr)
            self.assertTrue(done.stderr.startswith(f'train-heads: {said}'), done.stderr)

    def test_links_stay_and_what_is_no_file_is_not_replaced(self):
        pipe, link, draft = self.folder / 'pipe', self.folder / 'link.gguf', LAUNCH.parent / 'models' / 'tales-draft-q8_0.gguf'
        os.mkfifo(pipe)
        link.symlink_to(self.folder / 'target.gguf')
        for name in ('model.safetensors', 'config.json'):
            (self.folder / name).write_text('{}')
        shape = ['--dim', '256', '--layers', '2', '--heads', '4', '--kv-heads', '2', '--ffn', '512']
        for script, words in (('inflate', [draft, pipe, *shape]), ('heads-to-gguf', [self.folder, pipe]),
                              ('write-texts', ['-m', draft, '-o', pipe, '--texts', '2'])):
            done = self.start(script, *map(str, words))
            self.assertEqual((done.returncode, done.stderr.count('\n')), (1, 1), done.stderr)
            self.assertTrue(done.stderr.startswith(f'{script}: {pipe} is no regular file; choose another '), done.stderr)
            self.assertTrue(pipe.is_fifo())
        self.assertEqual(self.start('inflate', str(draft), str(link), *shape).returncode, 0)
        self.assertTrue(link.is_symlink())
        self.assertGreater((self.folder / 'target.gguf').stat().st_size, 1000)

    def test_bad_flags_say_where_the_right_ones_are(self):
        texts = self.start('write-texts', '-m', 'x', '-o', 'x', '--texts', '2', '--prompt-format', 'plain')
        self.assertIn("argument --prompt-format: 'plain' needs one {}, which stands for the question", texts.stderr)
        heads = self.start('train-heads', 'medusa', '-m', 'x', '-f', 'x', '-o', 'x', '--blocks', '2')
        self.assertIn('unrecognized arguments: --blocks 2; see launch/train-heads medusa --help', heads.stderr)

    def test_a_python_with_pytorch_is_not_replaced_by_another(self):
        with tempfile.TemporaryDirectory() as environment:
            subprocess.run([sys.executable, '-m', 'venv', '--without-pip', environment], check=True)
            python = pathlib.Path(environment) / 'bin' / 'python'
            (self.folder / 'torch.py').write_text('')
            (self.folder / 'file').write_text('x')
            words = ['-m', self.folder / 'file', '-f', self.folder / 'file', '-o', self.folder / 'out']
            done = subprocess.run([python, LAUNCH / 'train-heads', 'medusa', *words], capture_output=True, text=True, check=False,
                                  env=os.environ | {'PYTHONPATH': str(self.folder), 'YAMATA_BUILD': str(self.folder)})
        said = f'{python} has PyTorch, but not gguf; install it ({python} -m pip install gguf), or run the script with /usr/bin/python3'
        self.assertEqual((done.returncode, done.stderr), (1, f'train-heads: {said}\n'))

    def train_into(self, out):
        """Starts a training that needs PyTorch, which there is not: if it gets that far, it says so."""
        file = self.folder / 'file'
        file.write_text('x')
        return self.start('train-heads', 'medusa', '-m', str(file), '-f', str(file), '-o', str(out), gguf='', torch='raise SystemExit(9)')

    def test_files_that_no_training_wrote_are_not_replaced(self):
        project = self.folder / 'project'
        project.mkdir()
        for name, said in (('README.md', f'{project / "README.md"} exists and is not a model card of train-heads, so it is not replaced; '),
                           ('config.json', f'{project} has config.json, which train-heads did not write, so nothing is replaced; '),
                           ('model.safetensors', f'{project} has model.safetensors, which train-heads did not write, so nothing is ')):
            (project / name).write_text('mine')
            for out in (project, self.folder / '.' / 'project'):
                done = self.train_into(out)
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn(f'train-heads: {said}', done.stderr)
                self.assertTrue(done.stderr.endswith('; choose another folder with -o\n'), done.stderr)
                self.assertEqual(done.stderr.count('\n'), 1)
            self.assertEqual((project / name).read_text(), 'mine')
            (project / name).unlink()

    def test_a_folder_of_an_earlier_training_is_continued(self):
        card = '# x\n\n1 million parameters. Made by\n\n    launch/train-heads medusa -o x\n'
        for files in ({}, {'notes.txt': ''}, {'config.json': '{}', 'model.safetensors': 'x', 'README.md': card}):
            out = self.folder / f'out{len(files)}'
            out.mkdir()
            for name, content in files.items():
                (out / name).write_text(content)
            self.assertEqual(self.train_into(out).returncode, 9)
        (out / 'README.md').unlink()
        self.assertEqual(self.train_into(out).returncode, 1)
        with zipfile.ZipFile(out / 'checkpoint.pt', 'w') as archive:
            archive.writestr('checkpoint/data.pkl', b'\x80\x02}X\nsince_best')
        self.assertEqual(self.train_into(out).returncode, 9)

    def test_files_that_are_read_are_not_replaced(self):
        out = self.folder / 'out'
        out.mkdir()
        (self.folder / 'file').write_text('x')
        for link in (lambda path: path.symlink_to(self.folder / 'file'), lambda path: path.hardlink_to(self.folder / 'file')):
            link(out / 'checkpoint.pt')
            done = self.train_into(out)
            self.assertEqual((done.returncode, done.stderr),
                             (1, f'train-heads: {self.folder / "file"} would be overwritten; choose another folder with -o\n'))
            (out / 'checkpoint.pt').unlink()

    def test_missing_files_of_a_head_are_named_before_numpy_is_needed(self):
        empty, half = self.folder / 'empty', self.folder / 'half'
        empty.mkdir()
        half.mkdir()
        (half / 'model.safetensors').write_text('x')
        lacks = (empty, f'{empty} has no model.safetensors and no config.json'), (half, f'{half} has no config.json'), \
            (half / 'model.safetensors', f'{half} has no config.json'), (half / 'absent', f'{half / "absent"} does not exist')
        (self.folder / 'config.json').write_text('# notes')
        (self.folder / 'model.safetensors').write_text('x')
        done = self.start('heads-to-gguf', str(self.folder), str(self.folder / 'out.gguf'))
        self.assertEqual((done.returncode, done.stderr),
                         (2, f'heads-to-gguf: {self.folder / "config.json"} is damaged: it is no JSON; copy or write it again\n'))
        for head, lack in lacks:
            done = self.start('heads-to-gguf', str(head), str(self.folder / 'out.gguf'), numpy='raise SystemExit(9)',
                              gguf='raise SystemExit(9)')
            self.assertEqual((done.returncode, done.stderr), (2, f'heads-to-gguf: {lack}; give the folder of an EAGLE-3 head\n'))


if __name__ == '__main__':
    unittest.main()
