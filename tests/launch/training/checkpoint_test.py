"""Tests that launch/train-heads continues a training from its checkpoint, and which checkpoints it refuses."""
import pathlib
import pickletools
import sys
import unittest
import unittest.mock
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path[:0] = [str(HERE.parents[2] / 'launch/python'), str(HERE)]
import start  # noqa: F401
from training import python_here

python_here.go_on_or_skip(__file__, ('torch', 'gguf', 'numpy'))
import numpy
import torch

from scene import KINDS, Scene, quiet
from training import command, safetensors_file


class Continuing(Scene):
    def test_interrupted_training_ends_with_the_bits_of_one_that_was_not(self):
        for kind in KINDS:
            flags = ['--evaluate-every', '4', '--patience', '100']
            whole = self.prepared(kind, f'whole-{kind}', *flags)
            self.assertTrue(quiet(whole))
            for until in (5, 9):
                self.assertFalse(quiet(self.prepared(kind, f'parts-{kind}', *flags), until))
            parts = self.prepared(kind, f'parts-{kind}', *flags)
            self.assertEqual(parts.done, 9)
            self.assertTrue(quiet(parts))
            self.assertEqual(parts.losses, whole.losses, kind)
            for name, values in whole.head.state_dict().items():
                self.assertTrue(torch.equal(values, parts.head.state_dict()[name]), f'{kind} {name}')

    def test_paused_command_goes_on_and_writes_the_same_file(self):
        paused = self.train_heads('dgf', 'command', '--minutes', '0')
        self.assertEqual(paused.returncode, 130, paused.stderr)
        self.assertIn('the same command goes on', paused.stderr)
        self.assertFalse((self.folder / 'command' / 'model.safetensors').exists())
        for out in ('command', 'other'):
            done = self.train_heads('dgf', out)
            self.assertEqual(done.returncode, 0, done.stderr)
        first, second = ((self.folder / out / 'model.safetensors').read_bytes() for out in ('command', 'other'))
        self.assertEqual(first, second)
        card = (self.folder / 'command' / 'README.md').read_text()
        self.assertIn('| depth | guesses | right |', card)
        self.assertIn('for tiny', card)

    def test_paused_training_leaves_the_best_weights_so_far(self):
        flags = ['--evaluate-every', '4', '--patience', '100', '--type', 'f32']
        steps = iter(range(7))
        with unittest.mock.patch.object(command, 'Pause', lambda _: lambda: next(steps, None) is not None):
            self.assertEqual(self.train_heads('dgf', 'so-far', *flags).returncode, 130)
        best = self.prepared('dgf', 'so-far', *flags)
        self.assertEqual(best.done, 7)
        stored, _ = safetensors_file.read(self.folder / 'so-far' / 'model.safetensors')
        self.assertEqual(sorted(stored), sorted(best.best_state))
        for name, values in stored.items():
            self.assertTrue(numpy.array_equal(values, best.best_state[name].numpy()), name)
        self.assertIn('4 steps of at most', (self.folder / 'so-far' / 'README.md').read_text())

    def test_training_that_ends_between_its_first_files_goes_on(self):
        with unittest.mock.patch('training.folder.whole', side_effect=OSError(28, 'No space left on device')):
            self.assertEqual(self.train_heads('dgf', 'cut').returncode, 1)
        self.assertTrue((self.folder / 'cut' / 'model.safetensors').exists())
        self.assertEqual(self.train_heads('dgf', 'cut').returncode, 0)

    def test_a_finished_training_goes_on_with_more_steps(self):
        self.assertEqual(self.train_heads('dgf', 'longer').returncode, 0)
        further = self.train_heads('dgf', 'longer', '--steps', '20')
        self.assertEqual(further.returncode, 0, further.stderr)
        self.assertIn('going on at step 12', further.stderr)
        self.assertIn('step 20/20', further.stderr)

    def test_checkpoint_names_nothing_but_tensors(self):
        loop = self.prepared('dgf', 'named', '--evaluate-every', '2', '--patience', '100')
        self.assertFalse(quiet(loop, 3))
        self.assertIsNotNone(loop.best)
        with zipfile.ZipFile(loop.checkpoint) as archive:
            pickled = archive.read(next(name for name in archive.namelist() if name.endswith('data.pkl')))
        named = {argument for operation, argument, _ in pickletools.genops(pickled) if operation.name == 'GLOBAL'}
        self.assertLessEqual(named, {'collections OrderedDict', 'torch._utils _rebuild_tensor_v2', 'torch FloatStorage'})

    def test_patience_is_counted_over_interruptions(self):
        flags = ['--learning-rate', '0', '--steps', '500', '--evaluate-every', '2', '--patience', '3']
        self.assertFalse(quiet(self.prepared('medusa', 'patient', *flags), 7))
        loop = self.prepared('medusa', 'patient', *flags)
        self.assertTrue(quiet(loop))
        self.assertEqual(loop.done, 8)

    def test_a_training_that_no_longer_improved_goes_on_with_more_steps(self):
        flags = ['--learning-rate', '0', '--evaluate-every', '2', '--patience', '3']
        self.assertTrue(quiet(self.prepared('medusa', 'ended', *flags, '--steps', '500')))
        longer = self.prepared('medusa', 'ended', *flags, '--steps', '501')
        self.assertTrue(quiet(longer))
        self.assertEqual(longer.done, 14, 'three more evaluations after step 8')
        again = self.prepared('medusa', 'ended', *flags, '--steps', '501')
        self.assertTrue(quiet(again))
        self.assertEqual(again.done, 14)


class Refusing(Scene):
    def changed(self, out, change):
        """What the command says about its checkpoint after `change` of its content."""
        self.assertEqual(self.train_heads('dgf', out, '--minutes', '0').returncode, 130)
        path = self.folder / out / 'checkpoint.pt'
        state = torch.load(path)
        change(state)
        torch.save(state, path)
        refused = self.train_heads('dgf', out)
        self.assertEqual(refused.returncode, 2, refused.stderr)
        self.assertEqual(refused.stderr.count('\n'), 1, refused.stderr)
        return refused.stderr

    def test_checkpoint_of_another_version_is_named(self):
        def age(state):  # when AdamW was the only optimizer
            del state['version'], state['settings']['optimizer']
            state['optimizer'] = state['optimizer'][1]
        self.assertIn('checkpoint.pt is from an older version; delete it', self.changed('older', age))
        self.assertIn('checkpoint.pt is from a newer version; delete it', self.changed('newer', lambda state: state.update(version=1000)))

    def test_checkpoint_with_the_state_of_too_few_optimizers_is_damaged(self):
        self.assertIn('checkpoint.pt cannot be read (ValueError); delete it', self.changed('fewer', lambda state: state['optimizer'].pop()))

    def test_checkpoint_of_other_settings_or_damaged_is_named(self):
        self.assertEqual(self.train_heads('medusa', 'checkpointed', '--minutes', '0').returncode, 130)
        other = self.train_heads('medusa', 'checkpointed', '--seed', '5')
        self.assertEqual(other.returncode, 1)
        self.assertIn('begun with another seed', other.stderr)
        (self.folder / 'checkpointed' / 'checkpoint.pt').write_bytes(b'nothing')
        damaged = self.train_heads('medusa', 'checkpointed')
        self.assertEqual(damaged.returncode, 2)
        self.assertIn('delete it to start again', damaged.stderr)


if __name__ == '__main__':
    unittest.main()
