"""Tests how launch/train-heads and launch/heads-to-gguf start: Ctrl-C during an import, and files that are missing, without PyTorch."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import interrupted_import  # noqa: E402

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
        environment = os.environ | {'PYTHONPATH': str(self.folder), 'YAMATA_TRAIN_AGAIN': '1'}  # installs nothing
        return subprocess.run([sys.executable, LAUNCH / script, *arguments], env=environment, capture_output=True, text=True, check=False)

    def test_ctrl_c_during_an_import_ends_with_130_and_no_traceback(self):
        (self.folder / 'file').write_text('x')
        (self.folder / 'config.json').write_text('{}')
        file = str(self.folder / 'file')
        for script, arguments in (('train-heads', ['medusa', '-m', file, '-f', file, '-o', str(self.folder / 'out')]),
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
            self.assertEqual(done.stderr, f'train-heads: {wrong}: {self.folder / "absent"} does not exist\n')

    def test_missing_files_of_a_head_are_named_before_numpy_is_needed(self):
        empty, half = self.folder / 'empty', self.folder / 'half'
        empty.mkdir()
        half.mkdir()
        (half / 'model.safetensors').write_text('x')
        lacks = (empty, f'{empty} has no model.safetensors and no config.json'), (half, f'{half} has no config.json'), \
            (half / 'model.safetensors', f'{half} has no config.json'), (half / 'absent', f'{half / "absent"} does not exist')
        for head, lack in lacks:
            done = self.start('heads-to-gguf', str(head), str(self.folder / 'out.gguf'), numpy='raise SystemExit(9)',
                              gguf='raise SystemExit(9)')
            self.assertEqual((done.returncode, done.stderr), (2, f'heads-to-gguf: {lack}; give the folder of an EAGLE-3 head\n'))


if __name__ == '__main__':
    unittest.main()
