"""Tests how a training begins with the weights of another head, and which texts it then holds out."""
import json
import pathlib
import shutil
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path[:0] = [str(HERE.parents[2] / 'launch/python'), str(HERE)]
import start  # noqa: F401
from training import python_here

python_here.go_on_or_skip(__file__, ('torch', 'gguf', 'numpy'))
import numpy

import tiny
from scene import KINDS, Scene, run
from training import features, options, safetensors_file


class Continuing(Scene):
    def test_from_begins_with_the_weights_of_another_head(self):
        tiny.write_features(self.folder / 'more.st', texts=40, seed=9)  # other tokens are the most frequent ones
        for kind in KINDS:
            self.assertEqual(self.train_heads(kind, f'first-{kind}', '--type', 'f32').returncode, 0)
            stored, _ = safetensors_file.read(self.folder / f'first-{kind}' / 'model.safetensors')
            more = ['-f', str(self.folder / 'more.st'), '--seed', '8', '--from', str(self.folder / f'first-{kind}')]
            for name, values in self.prepared(kind, f'second-{kind}', *more).head.tensors().items():
                self.assertTrue(numpy.array_equal(values.detach().numpy(), stored[name]), f'{kind} {name}')
        shutil.copytree(self.folder / 'first-eagle3', self.folder / 'first-layers')
        config = self.folder / 'first-layers' / 'config.json'
        config.write_text(json.dumps(json.loads(config.read_text()) | {'eagle_aux_hidden_state_layer_ids': [0, 1, 2]}))
        for kind, other, part in (('dgf', 'medusa', 'does not fit'), ('dgf', 'none', 'none'),
                                  ('eagle3', 'eagle3', '--draft-vocabulary does not fit the head in '),
                                  ('eagle3', 'layers', '--layers does not fit the head in ')):
            refused = self.train_heads(kind, 'second', '--from', str(self.folder / f'first-{other}'),
                                       *(['--draft-vocabulary', '40'] if part.startswith('--draft') else []))
            self.assertEqual(refused.returncode, 1 if part.startswith('--') else 2, refused.stderr)
            self.assertEqual(refused.stderr.count('\n'), 1, refused.stderr)
            self.assertIn(part, refused.stderr)

    def test_from_takes_sizes_and_warns_if_that_head_may_know_the_held_out_texts(self):
        for kind, sizes in (('medusa', ['--heads', '2', '--shared-output']), ('dgf', ['--blocks', '3']),
                            ('eagle3', ['--draft-vocabulary', '40', '--layers', '2,5'])):
            common = [kind, '-m', self.folder / 'target.gguf', '-f', self.folder / 'features.safetensors', '--steps', '2', '--threads', '1']
            first, second, third = (self.folder / f'{name}-{kind}' for name in ('sized', 'like', 'unlike'))
            self.assertEqual(run('train-heads', *common, '-o', first, *sizes).returncode, 0)
            like = run('train-heads', *common, '-o', second, '--from', first, '--held-out', '0.05')
            self.assertEqual(like.returncode, 0, like.stderr)
            self.assertNotIn('warning', like.stderr)
            self.assertIn('that it was not trained on', (second / 'README.md').read_text())
            for other in (['--seed', '5'], ['--held-out', '0.3']):
                shutil.rmtree(third, ignore_errors=True)
                unlike = run('train-heads', *common, '-o', third, '--from', first, *other)
                self.assertIn(f'warning: the head in {first} may know the texts that are held out now; give --seed 1 and --held-out 0.1',
                              unlike.stderr)
                self.assertIn('may know them', (third / 'README.md').read_text())

    def test_from_is_never_worse_than_that_head(self):
        self.assertEqual(self.train_heads('medusa', 'good', '--steps', '60').returncode, 0)
        spoilt = self.train_heads('medusa', 'spoilt', '--from', str(self.folder / 'good'), '--learning-rate', '100',
                                   '--evaluate-every', '12')
        self.assertEqual(spoilt.returncode, 0, spoilt.stderr)
        good, kept = (safetensors_file.read(self.folder / name / 'model.safetensors')[0] for name in ('good', 'spoilt'))
        for name, values in good.items():
            self.assertTrue(numpy.array_equal(kept[name], values), name)

    def test_from_refuses_a_head_that_would_compute_in_another_way(self):
        self.assertEqual(self.train_heads('dgf', 'other').returncode, 0)
        path = self.folder / 'other' / 'config.json'
        config = json.loads(path.read_text())
        for wrong, part in (({'rope_theta': 500}, 'config.json: rope_theta is 500, but 10000.0 for this model'),
                            ({'num_hidden_layers': '2'}, "config.json: num_hidden_layers is '2', but 2 for this model"),
                            ({'rms_norm_eps': 1.000001e-5, 'rope_theta': 10000}, '')):
            path.write_text(json.dumps(config | wrong))
            done = self.train_heads('dgf', 'like-other', '--from', str(path.parent))
            self.assertEqual(done.returncode, 2 if part else 0, done.stderr)
            self.assertIn(part, done.stderr)
        path.write_text('{')
        self.assertIn('is damaged: it is no JSON', self.train_heads('dgf', 'like-other', '--from', str(path.parent)).stderr)

    def test_weights_that_do_not_fit_are_not_written(self):
        steep = self.train_heads('dgf', 'steep', '--learning-rate', '1e9', '--evaluate-every', '1')
        self.assertEqual(steep.returncode, 2, steep.stderr)
        self.assertIn('too large for float16; lower --learning-rate', steep.stderr.splitlines()[-1])
        self.assertNotIn('Warning', steep.stderr)
        self.assertFalse((self.folder / 'steep' / 'model.safetensors').exists())

    def test_from_begins_at_a_lower_learning_rate(self):
        plain, continued = (options.read(['dgf', '-m', 'x', '-f', 'x', '-o', 'x', *more], '') for more in ([], ['--from', 'x']))
        self.assertAlmostEqual(continued.learning_rate, 0.3 * plain.learning_rate)

    def test_texts_stay_held_out_when_others_are_added(self):
        tiny.write_features(self.folder / 'added.st', texts=60, seed=11)
        few, all_of_them, twice = (features.Features([self.folder / name for name in names], ['last'], tiny.DIM, tiny.VOCABULARY)
                                   for names in (['features.safetensors'], ['added.st', 'features.safetensors'],
                                                 ['features.safetensors', 'features.safetensors']))

        def held(data, seed=1):
            kept, out = ([tuple(data.files[file]['ids'][first:end]) for file, first, end, _ in side] for side in data.split(0.3, seed))
            self.assertEqual(len(kept) + len(out), len(data.texts))
            self.assertFalse(set(kept) & set(out))
            return set(out)

        before = held(few)
        old = {tuple(few.files[file]['ids'][first:end]) for file, first, end, _ in few.texts}
        self.assertEqual(held(all_of_them) & old, before)
        self.assertEqual(held(twice), before)
        self.assertNotEqual(held(few, seed=2), before)
        self.assertTrue(0.15 < len(held(all_of_them)) / len(all_of_them.texts) < 0.45)


if __name__ == '__main__':
    unittest.main()
