"""Tests launch/train-heads and launch/heads-to-gguf: trains heads for a tiny target within seconds, and checks what is refused."""
import dataclasses
import json
import pathlib
import shutil
import sys
import types
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path[:0] = [str(HERE.parents[2] / 'launch/python'), str(HERE)]
import start  # noqa: F401
from training import python_here

python_here.go_on_or_skip(__file__, ('torch', 'gguf', 'numpy'))
import gguf
import numpy
import torch

import reference
import tiny
from scene import KINDS, Scene, quiet, run
from training import features, gguf_file, optimizer, options, rates, safetensors_file, target

SHAPE = (tiny.HEADS, tiny.KV_HEADS, tiny.ROPE_BASE)


class Training(Scene):
    def test_loss_falls_and_guesses_become_right(self):
        for kind in KINDS:
            # with such short texts, the noise would be as large as the features
            more = ['--noise', '0'] if kind in ('dgf', 'eagle') else []
            loop = self.prepared(kind, f'learn-{kind}', '--steps', '100', '--batch', '256', '--evaluate-every', '10', '--patience', '100',
                                 *more)
            self.assertTrue(quiet(loop))
            self.assertLess(loop.losses[-1][1], 0.6 * loop.losses[0][1], kind)
            self.assertGreater(loop.best.share(0), 0.6, f'{kind}: {loop.best}')
            self.assertLess(loop.held_out.rates(self.prepared(kind, f'fresh-{kind}').head).share(0), 0.5, kind)

    def test_stops_when_held_out_acceptance_no_longer_rises(self):
        loop = self.prepared('medusa', 'early', '--learning-rate', '0', '--steps', '500', '--evaluate-every', '2', '--patience', '3')
        self.assertTrue(quiet(loop))
        self.assertEqual(loop.done, 8, 'the first evaluation is the best; three more')

    def test_a_loss_that_is_no_number_ends_the_training(self):
        ended = self.train_heads('medusa', 'steep', '--learning-rate', '1e30')
        self.assertEqual(ended.returncode, 2, ended.stderr)
        self.assertIn('lower --learning-rate', ended.stderr)

    def test_another_seed_trains_another_head(self):
        one, other = (self.prepared('medusa', f'seed{seed}', '--seed', str(seed)) for seed in (1, 2))
        for loop in (one, other):
            quiet(loop, 2)
        self.assertFalse(torch.equal(one.head.heads[0][1].weight, other.head.heads[0][1].weight))


class Starting(Scene):
    def test_an_eagle3_head_begins_as_the_targets_last_layer_behind_the_last_layer_that_is_read(self):
        data = features.Features([self.folder / 'features.safetensors'], [*map(str, tiny.READ), 'last'], tiny.DIM, tiny.VOCABULARY)
        batch = data.batch(data.texts[:1])
        head = self.prepared('eagle3', 'begins').head
        rows = batch.hidden[str(tiny.READ[-1])]
        with torch.no_grad():
            self.assertTrue(torch.equal(head.start(batch), rows))
            made, _ = head.step(rows, batch.ids, [])
        layer = reference.layer(tiny.weights(), f'blk.{tiny.LAYERS - 1}', SHAPE, tiny.EPS, rows[0].double().numpy())
        for computed, expected in zip(made[0].numpy(), layer):
            self.assertLess(abs(computed - expected).max(), 1e-4 * abs(expected).max())

    def test_random_weights_where_they_are_wanted_or_the_target_has_other_layers(self):
        tiny.write_target(self.folder / 'experts.gguf', without=['ffn_gate'])
        random = self.prepared('eagle3', 'random', '--start', 'random').head.state_dict()
        experts = self.prepared('eagle3', 'experts', '-m', str(self.folder / 'experts.gguf')).head.state_dict()
        for name, values in random.items():
            self.assertTrue(torch.equal(values, experts[name]), name)
        self.assertLess(random['midlayer.mlp.up_proj.weight'].std(), 0.03)


class Layers(Scene):
    def test_eagle3_reads_layers_that_ascend_and_exist_in_a_model_of_any_depth(self):
        """The same table is in tests/draft_heads/draft_heads_test.cpp."""
        model = target.load(self.folder / 'target.gguf')
        for layers, read in ((1, [0]), (2, [0, 1]), (3, [0, 1, 2]), (4, [1, 2, 3]), (5, [1, 2, 3]), (6, [2, 3, 4]), (7, [2, 3, 4]),
                             (8, [2, 4, 5]), (32, [2, 16, 29])):
            self.assertEqual(dataclasses.replace(model, layers=layers).eagle3_layers(), read, layers)

    def test_a_head_for_a_model_of_two_layers_reads_both(self):
        tiny.write_target(self.folder / 'two.gguf', layers=2)
        tiny.write_features(self.folder / 'two.st', read=[0, 1])
        flags = ['-m', self.folder / 'two.gguf', '-f', self.folder / 'two.st', '-o', self.folder / 'two', '--steps', '2', '--batch', '96',
                 '--draft-vocabulary', '48']
        done = run('train-heads', 'eagle3', *flags)
        self.assertEqual(done.returncode, 0, done.stderr)
        stored, _ = safetensors_file.read(self.folder / 'two' / 'model.safetensors')
        self.assertEqual(stored['fc.weight'].shape, (tiny.DIM, 2 * tiny.DIM))
        self.assertEqual(json.loads((self.folder / 'two' / 'config.json').read_text())['eagle_aux_hidden_state_layer_ids'], [0, 1])

    def test_layers_are_sorted_and_those_that_are_useless_are_refused_before_training(self):
        self.assertEqual(self.prepared('eagle3', 'sorted', '--layers', '5,2,4').head.feature_layers, [2, 4, 5])
        for layers, part in (('2,2,4', '2,2,4 names a layer twice'), ('2,4,8', 'no layer 8'), ('2,x', 'is not a whole number')):
            refused = self.train_heads('eagle3', 'useless', '--layers', layers)
            self.assertEqual(refused.returncode, 1, refused.stderr)
            self.assertEqual(refused.stderr.count('\n'), 1, refused.stderr)
            self.assertIn(part, refused.stderr)


class Optimizing(Scene):
    def test_each_optimizer_has_its_own_learning_rate(self):
        for kind, rates_of_kind in {'medusa': (1e-3, 1e-3), 'dgf': (2e-3, 5e-4), 'eagle': (2e-3, 5e-4), 'eagle3': (2e-3, 5e-4)}.items():
            for chosen, rate in zip(('muon', 'adamw'), rates_of_kind):
                read = options.read([kind, '-m', 'm.gguf', '-f', 'f.safetensors', '-o', 'out', '--optimizer', chosen], '')
                self.assertEqual(read.learning_rate, rate, f'{kind} {chosen}')

    def test_a_muon_step_has_singular_values_of_about_one(self):
        random = torch.Generator().manual_seed(3)
        for shape in ((24, 40), (40, 24)):
            values = torch.linalg.svdvals(optimizer.orthogonalized(torch.randn(shape, generator=random), torch.float32))
            self.assertGreater(values.min(), 0.6)
            self.assertLess(values.max(), 1.3)

    def test_muon_trains_the_matrices_inside_a_head_and_adamw_the_rest(self):
        for kind in KINDS:
            for chosen in ('muon', 'adamw'):
                with self.subTest(kind=kind, optimizer=chosen):
                    head = self.prepared(kind, f'{kind}-{chosen}', '--optimizer', chosen).head
                    parts = optimizer.Optimizer(head, chosen, False).parts
                    by_part = {type(part): {id(weight) for weight in part.param_groups[0]['params']} for part, _ in parts}
                    outputs = {id(weight) for weight in head.outputs()}
                    matrices = {id(weight) for weight in head.parameters() if weight.ndim == 2} - outputs
                    self.assertEqual(by_part.get(optimizer.Muon, set()), matrices if chosen == 'muon' else set())
                    self.assertEqual(set().union(*by_part.values()), {id(weight) for weight in head.parameters()})

    def test_muons_learning_rate_scales_its_step(self):
        weight = torch.nn.Parameter(torch.zeros(8, 16))
        weight.grad = torch.randn(8, 16, generator=torch.Generator().manual_seed(5))
        optimizer.Muon([weight], 0.1, torch.float32).step()
        self.assertAlmostEqual(weight.detach().pow(2).mean().sqrt().item(), 0.2 * 0.1, delta=0.006)  # as a step of AdamW


class Files(Scene):
    def written(self, kind, *more):
        out = f'files-{kind}'
        self.assertEqual(self.train_heads(kind, out, *more).returncode, 0)
        return self.folder / out

    def text(self):
        """The first text: (tokens, hidden states by layer, a batch with it)."""
        data = features.Features([self.folder / 'features.safetensors'], [*map(str, tiny.READ), 'last'], tiny.DIM, tiny.VOCABULARY)
        batch = data.batch(data.texts[:1])
        return batch.ids[0].tolist(), {name: rows[0].double().numpy() for name, rows in batch.hidden.items()}, batch

    def compare(self, guessed, reference_guesses, depths):
        same = all_compared = 0
        for row, chain in enumerate(reference_guesses):
            for depth, token in enumerate(chain[:depths]):
                all_compared += 1
                same += int(guessed[depth][0][row]) == token
        self.assertGreater(all_compared, 20)
        self.assertGreaterEqual(same / all_compared, 0.99)

    def test_guesses_are_those_of_a_reference_that_reads_the_file_and_goes_row_by_row(self):
        tokens, hidden, batch = self.text()
        model = {name: values.astype('f8') for name, values in tiny.weights().items()}
        for kind in KINDS:
            path = self.written(kind, '--type', 'f32') / 'model.safetensors'
            loop = self.prepared(kind, f'files-{kind}')
            loop.head.load_state_dict(loop.best_state)
            with torch.no_grad():
                guessed = loop.head.guesses(batch)
            if kind == 'medusa':
                self.compare(guessed, reference.medusa(path, model, hidden), 3)
            elif kind in ('dgf', 'eagle'):
                head = reference.Dgf if kind == 'dgf' else reference.Eagle
                self.compare(guessed, head(path, model, SHAPE, tiny.EPS).guesses(hidden, tokens, 3), 3)
            else:
                self.compare(guessed, reference.Eagle3(path, model, SHAPE, tiny.EPS).guesses(hidden, tokens, 3, tiny.READ), 3)

    def test_keys_and_shapes(self):
        d, f, kv = tiny.DIM, tiny.FFN, tiny.KV_HEADS * tiny.DIM // tiny.HEADS
        layer = {'mlp.gate_proj.weight': (f, d), 'mlp.up_proj.weight': (f, d), 'mlp.down_proj.weight': (d, f),
                 'self_attn.o_proj.weight': (d, d), 'post_attention_layernorm.weight': (d,)}
        attention = {'self_attn.q_proj.weight': (d, d), 'self_attn.k_proj.weight': (kv, d), 'self_attn.v_proj.weight': (kv, d)}
        shapes = {
            'medusa': {f'{k}.{name}': shape for k in range(3) for name, shape in
                       {'0.linear.weight': (d, d), '0.linear.bias': (d,), '1.weight': (tiny.VOCABULARY, d)}.items()},
            'dgf': {'input_layernorm.weight': (d,), 'W_1': (d, d), 'W_2': (d, d), 'W_z': (2 * d, d),
                    'layers.1.input_layernorm.weight': (d,),
                    **{f'layers.{i}.{name}': shape for i in range(2) for name, shape in
                       {**layer, **attention}.items()}},
            'eagle': {'fc.weight': (d, 2 * d), 'fc.bias': (d,), **{f'layers.0.{name}': shape for name, shape in
                                                                   {**layer, **attention}.items()}},
            'eagle3': {'fc.weight': (d, 3 * d), 'norm.weight': (d,), 'lm_head.weight': (48, d), 'd2t': (48,), 't2d': (tiny.VOCABULARY,),
                       'midlayer.input_layernorm.weight': (d,), 'midlayer.hidden_norm.weight': (d,),
                       'midlayer.self_attn.q_proj.weight': (d, 2 * d),
                       'midlayer.self_attn.k_proj.weight': (kv, 2 * d), 'midlayer.self_attn.v_proj.weight': (kv, 2 * d),
                       **{f'midlayer.{name}': shape for name, shape in layer.items()}}}
        for kind in KINDS:
            tensors, _ = safetensors_file.read(self.written(kind) / 'model.safetensors')
            self.assertEqual({name: values.shape for name, values in tensors.items()}, shapes[kind])
            self.assertTrue(all(values.dtype == numpy.float16 for values in tensors.values() if values.dtype.kind == 'f'))
        ids = tensors['d2t'] + numpy.arange(48)
        self.assertEqual(numpy.flatnonzero(tensors['t2d']).tolist(), ids.tolist(), 'the last one is the EAGLE-3 head')

    def test_medusa_heads_that_read_the_models_output_have_none_of_their_own(self):
        out = self.folder / 'shared'
        self.assertEqual(self.train_heads('medusa', 'shared', '--shared-output').returncode, 0)
        tensors, _ = safetensors_file.read(out / 'model.safetensors')
        self.assertEqual(sorted(tensors), sorted(f'{k}.0.linear.{name}' for k in range(3) for name in ('weight', 'bias')))


class Gguf(Scene):
    def setUp(self):
        if not (self.folder / 'head' / 'model.safetensors').exists():
            self.assertEqual(self.train_heads('eagle3', 'head', '--type', 'f32').returncode, 0)

    def convert(self, *arguments):
        return run('heads-to-gguf', *arguments)

    def test_round_trip(self):
        stored, _ = safetensors_file.read(self.folder / 'head' / 'model.safetensors')
        for kind, error in (('f32', 0), ('f16', 1e-3), ('q8_0', 1e-2)):
            path = self.folder / f'head-{kind}.gguf'
            self.assertEqual(self.convert(self.folder / 'head', path, '--type', kind).returncode, 0)
            reader = gguf.GGUFReader(path)
            read = {tensor.name: gguf.quants.dequantize(tensor.data, tensor.tensor_type) if tensor.name != 'd2t' else tensor.data
                    for tensor in reader.tensors}
            self.assertEqual(read.pop('d2t').tolist(), (stored['d2t'] + numpy.arange(48)).tolist())
            head_dim = tiny.DIM // tiny.HEADS
            for key, values in stored.items():
                if key in ('d2t', 't2d'):
                    continue
                back = read.pop(gguf_file.NAMES[key])
                if key.endswith(('q_proj.weight', 'k_proj.weight')):  # pair i of a head is in rows 2i and 2i + 1
                    rows = [head * head_dim + 2 * i + half for head in range(len(back) // head_dim) for half in (0, 1)
                            for i in range(head_dim // 2)]
                    back = back[rows]
                self.assertLessEqual(abs(back - values).max(), error * max(abs(values).max(), 1), f'{kind} {key}')
            self.assertEqual(read, {})
            self.assertEqual(reader.fields['general.architecture'].contents(), 'eagle3')
            self.assertEqual(reader.fields['eagle3.target_layers'].contents(), tiny.READ)
            self.assertEqual(reader.fields['eagle3.target_hidden_size'].contents(), tiny.DIM)

    def test_what_is_no_eagle3_head_is_refused(self):
        self.assertEqual(self.train_heads('dgf', 'no-eagle').returncode, 0)
        for source in (self.folder / 'no-eagle', self.folder / 'absent'):
            refused = self.convert(source, self.folder / 'x.gguf')
            self.assertEqual(refused.returncode, 2, refused.stderr)
            self.assertEqual(refused.stderr.count('\n'), 1, refused.stderr)
            self.assertIn(f'{source} does not exist' if source.name == 'absent' else 'no-eagle', refused.stderr)
        self.assertFalse((self.folder / 'x.gguf').exists())


    def test_head_is_not_overwritten(self):
        head = self.folder / 'head'
        for source, name in ((head, 'model.safetensors'), (head / 'model.safetensors', 'model.safetensors'), (head, 'config.json')):
            refused = self.convert(source, head / name)
            self.assertEqual(refused.returncode, 1, refused.stderr)
            self.assertEqual(refused.stderr, f'heads-to-gguf: {head / name} would be overwritten; write to another file\n')

    def test_a_damaged_config_is_named(self):
        for content, part in (('{"hidden_size": 32, "num', 'damaged: it is no JSON'), ('[]', 'not the configuration'),
                              ('{}', "has no 'num_attention_heads'"),
                              ('{"hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 0}', 'does not describe')):
            shutil.copytree(self.folder / 'head', self.folder / 'damaged', dirs_exist_ok=True)
            (self.folder / 'damaged' / 'config.json').write_text(content)
            refused = self.convert(self.folder / 'damaged', self.folder / 'x.gguf')
            self.assertEqual(refused.returncode, 2, refused.stderr)
            self.assertEqual(refused.stderr.count('\n'), 1, refused.stderr)
            self.assertIn(part, refused.stderr)
        (self.folder / 'damaged' / 'config.json').write_text('{')
        refused = self.train_heads('eagle3', 'again', '--from', str(self.folder / 'damaged'))
        self.assertEqual(refused.returncode, 2, refused.stderr)
        self.assertIn('no JSON', refused.stderr)


class Refusals(Scene):
    def assert_refused(self, code, part, kind='medusa', out='refused', **flags):
        arguments = self.flags(kind, out)
        for flag, value in flags.items():
            at = arguments.index('-' + flag)
            arguments[at + 1] = str(value)
        done = run('train-heads', *arguments)
        lines = [line for line in done.stderr.splitlines() if line.startswith('train-heads: ')]
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertEqual(len(lines), 1, done.stderr)
        self.assertIn(part, lines[0])

    def test_files_of_another_model_or_damaged_ones_are_named(self):
        whole = (self.folder / 'features.safetensors').read_bytes()
        for name, content in (('cut', whole[:-100]), ('short', whole[:5]), ('text', b'no features ' * 100)):
            (self.folder / f'{name}.st').write_bytes(content)
            self.assert_refused(2, f'{name}.st', f=self.folder / f'{name}.st')
        tiny.write_features(self.folder / 'wide.st', dim=48)
        self.assert_refused(2, 'features of another model', f=self.folder / 'wide.st')
        tiny.write_features(self.folder / 'one.st', texts=1)
        self.assert_refused(2, 'only one text', f=self.folder / 'one.st')
        self.assert_refused(2, 'absent.st', f=self.folder / 'absent.st')
        self.assert_refused(2, 'cannot be read (Is a directory)', f=self.folder)
        self.assert_refused(2, 'cannot be read as a GGUF file', m=self.folder / 'text.st')
        self.assert_refused(2, 'absent.gguf does not exist', m=self.folder / 'absent.gguf')
        self.assert_refused(2, 'text.st is no safetensors file; give one', f=self.folder / 'text.st')
        (self.folder / 'cut.gguf').write_bytes((self.folder / 'target.gguf').read_bytes()[:-100])
        self.assert_refused(2, 'cut.gguf cannot be read as a GGUF file (it is cut short or damaged); give', m=self.folder / 'cut.gguf')
        self.assert_refused(2, 'cannot be read as a GGUF file (Is a directory); give', m=self.folder)
        tiny.write_target(self.folder / 'gemma.gguf', 'gemma2')
        self.assert_refused(2, 'of the family gemma2', m=self.folder / 'gemma.gguf')

    def test_files_that_are_read_are_not_overwritten(self):
        for name, flag in (('model.safetensors', 'f'), ('checkpoint.pt', 'f'), ('config.json', 'm')):
            out = self.folder / f'read-{name}'
            out.mkdir()
            (out / name).symlink_to(self.folder / ('features.safetensors' if flag == 'f' else 'target.gguf'))
            self.assert_refused(1, f'{name} would be overwritten; choose another folder with -o', out=out.name, **{flag: out / name})
        self.assertEqual(self.train_heads('medusa', 'begun').returncode, 0)
        (self.folder / 'begun' / 'checkpoint.pt').unlink()
        refused = self.train_heads('medusa', 'begun', '--from', str(self.folder / 'begun'))
        self.assertEqual(refused.returncode, 1, refused.stderr)
        self.assertIn('model.safetensors would be overwritten; choose another folder with -o', refused.stderr)

    def test_what_is_refused_leaves_no_folder(self):
        self.assert_refused(2, 'cut.st', out='later', f=self.cut())
        self.assertFalse((self.folder / 'later').exists())

    def cut(self):
        (self.folder / 'cut.st').write_bytes((self.folder / 'features.safetensors').read_bytes()[:-100])
        return self.folder / 'cut.st'

    def test_flags_that_make_no_sense_are_usage(self):
        for arguments in ([], ['eagle2'], ['medusa'], self.flags('medusa', 'x', '--heads', '0'),
                          self.flags('dgf', 'x', '--draft-vocabulary', '64')):
            refused = run('train-heads', *arguments)
            self.assertEqual(refused.returncode, 1, refused.stderr)
            self.assertEqual(refused.stderr.count('\n'), 1, refused.stderr)


class Batches(Scene):
    def test_a_file_behind_a_gap_does_not_continue_the_others(self):
        for number in (4, 12345):
            tiny.write_features(self.folder / f'features-{number:05}.safetensors')
        self.assertEqual(features.shards_of(self.folder / 'features.safetensors'),
                         [self.folder / 'features.safetensors', self.folder / 'features-00002.safetensors'])

    def test_large_batches_are_filled(self):
        texts = [(0, at, at + 266, 60) for at in range(0, 266 * 1000, 266)]
        sizes = [sum(end - first for _, first, end, _ in group) for group in features.batches(texts, 22000)]
        self.assertGreater(sorted(sizes)[len(sizes) // 2], 0.95 * 22000)
        self.assertLessEqual(max(sizes), 22000)

    def test_every_text_is_in_one_batch_of_an_epoch_and_batches_keep_their_size(self):
        texts = [(0, at, at + 3 + at % 40, 0) for at in range(300)]
        for random in (None, numpy.random.default_rng(5)):
            made = features.batches(texts, 200, random)
            self.assertEqual(sorted(text for group in made for text in group), texts)
            self.assertTrue(all(len(group) * max(end - first for _, first, end, _ in group) <= 200 for group in made))

    def test_pieces_cover_a_text_and_keep_what_was_prompt(self):
        self.assertEqual(features.cut([(0, 10, 40, 12)], 10), [(0, 10, 20, 12), (0, 20, 30, 2), (0, 30, 40, 0)])

    def test_only_rows_that_the_target_wrote_are_measured(self):
        data = features.Features([self.folder / 'features.safetensors'], ['last'], tiny.DIM, tiny.VOCABULARY)
        model = target.load(self.folder / 'target.gguf')
        held = rates.HeldOut([data.batch(data.texts[:4])], model)
        right = types.SimpleNamespace(depths=2, guesses=lambda batch: [batch.ahead(held.choices[0], depth + 1) for depth in range(2)])
        measured = held.rates(right)
        lengths = [end - first for _, first, end, _ in data.texts[:4]]
        self.assertEqual(measured.compared, [sum(length - 3 for length in lengths), sum(length - 4 for length in lengths)])
        self.assertEqual(measured.tokens_per_pass(), 3.0)
        wrong = types.SimpleNamespace(depths=2,
                                      guesses=lambda batch: [batch.ahead(held.choices[0], 1) + 1, batch.ahead(held.choices[0], 2)])
        self.assertEqual(held.rates(wrong).chain[1], 0, 'a right guess behind a wrong one is not accepted')


if __name__ == '__main__':
    unittest.main()
