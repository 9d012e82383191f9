"""What the tests of training share: a tiny target with features, and scripts that run in this process."""
import contextlib
import importlib.machinery
import importlib.util
import io
import pathlib
import sys
import tempfile
import types
import unittest
import unittest.mock

import torch

import tiny
from training import command, options

LAUNCH = pathlib.Path(__file__).resolve().parents[3] / 'launch'
KINDS = {'medusa': ['--heads', '3'], 'dgf': ['--blocks', '2', '--depths', '3'], 'eagle': ['--depths', '3'],
         'eagle3': ['--draft-vocabulary', '48', '--depths', '3', '--layers', ','.join(map(str, tiny.READ))]}
torch.set_num_threads(1)


def run(script, *arguments):
    """Runs a script of launch/ with these arguments in this process, because PyTorch takes seconds to start."""
    loader = importlib.machinery.SourceFileLoader(script.replace('-', '_'), str(LAUNCH / script))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    out, err = io.StringIO(), io.StringIO()
    called = unittest.mock.patch.object(sys, 'argv', [script, *map(str, arguments)])
    with called, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = module.main()
        except SystemExit as ended:
            code = ended.code
    return types.SimpleNamespace(returncode=code, stdout=out.getvalue(), stderr=err.getvalue())


def quiet(loop, until=None):
    """Runs the loop without its lines on stderr."""
    with contextlib.redirect_stderr(io.StringIO()):
        return loop.run(until)


class Scene(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.kept = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.kept.cleanup)
        cls.folder = pathlib.Path(cls.kept.name)
        tiny.write_target(cls.folder / 'target.gguf')
        tiny.write_features(cls.folder / 'features.safetensors')
        tiny.write_features(cls.folder / 'features-00002.safetensors', seed=4)

    def flags(self, kind, out, *more):
        return [kind, *KINDS[kind], '-m', str(self.folder / 'target.gguf'), '-f', str(self.folder / 'features.safetensors'), '-o',
                str(self.folder / out), '--steps', '12', '--batch', '96', '--learning-rate', '1e-2', '--threads', '1', *more]

    def read(self, kind, out, *more):
        return options.read(self.flags(kind, out, *more), '')

    def prepared(self, kind, out, *more):
        (self.folder / out).mkdir(exist_ok=True)
        return command.prepare(self.read(kind, out, *more))[0]

    def train_heads(self, kind, out, *more):
        return run('train-heads', *self.flags(kind, out, *more))
