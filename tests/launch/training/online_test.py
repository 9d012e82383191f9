"""Tests launch/write-texts, and training on its texts: a model in PyTorch computes and writes what the program does.

  online_test.py YAMATA WRITE_TINY_MODEL"""
import contextlib
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

HERE = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path[:0] = [str(HERE.parents[2] / 'launch/python'), str(HERE)]
import start  # noqa: F401
from training import python_here

python_here.go_on_or_skip(__file__, ('torch', 'gguf', 'numpy'))
import numpy
import torch
from torch.nn import functional

from scene import quiet, run
from training import command, options, safetensors_file, target, whole_target

YAMATA, WRITE_TINY_MODEL = sys.argv[1:3]
TALES = HERE.parents[2] / 'models' / 'tales-target-q8_0.gguf'
STORIES = ['Once upon a time there was a king', 'The wolf came to the', 'In the old days, when wishing still helped, a']
WORDS = [chr(0x4E00 + 260 + number * 37 % 250) for number in range(24)]  # tokens of the tiny models' vocabulary
EAGLE3 = ('eagle3', '--draft-vocabulary', '256', '--unroll', '2', '--depths', '2')
TINY = [' '.join(WORDS[begin:begin + 12]) for begin in (0, 4, 8)]


def program(*words):
    return subprocess.run([YAMATA, *map(str, words)], capture_output=True, text=True, check=True).stdout


def load(path):
    file = target.ModelFile(path)
    return whole_target.WholeTarget(file, target.read(file))


class Scene(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        kept = tempfile.TemporaryDirectory()
        cls.addClassCleanup(kept.cleanup)
        cls.folder = pathlib.Path(kept.name)
        environment = unittest.mock.patch.dict('os.environ', YAMATA_BUILD=str(pathlib.Path(YAMATA).parent))
        environment.start()
        cls.addClassCleanup(environment.stop)

    def tiny(self, family):
        path = self.folder / f'{family}.gguf'
        subprocess.run([WRITE_TINY_MODEL, family, 'F32', path], check=True)
        return path

    def features(self, model, prompts, layers, out='features.safetensors'):
        (self.folder / 'prompts.txt').write_text('\n'.join(prompts))
        program('features', '-m', model, '-f', self.folder / 'prompts.txt', '-o', self.folder / out, '--generate', 24, '--layers', layers,
                '--type', 'f32')
        return safetensors_file.read(self.folder / out)[0]

    def write_texts(self, out, *more, model=TALES, texts=24):
        return run('write-texts', '-m', model, '-o', self.folder / out, '--texts', texts, '--question-tokens', '9', '--answer-tokens', '20',
                   '--threads', '1', *more)

    def texts(self, out):
        """[(ids, number of ids of the prompt)] of a file."""
        tensors, _ = safetensors_file.read(self.folder / out)
        self.assertEqual({name: values.dtype for name, values in tensors.items()}, {'ids': 'int32', 'texts': 'int64', 'prompts': 'int64'})
        bounds = tensors['texts'].tolist()
        self.assertEqual((bounds[0], bounds[-1], len(tensors['prompts'])), (0, len(tensors['ids']), len(bounds) - 1))
        return [(tensors['ids'][first:end].tolist(), int(prompt)) for first, end, prompt in zip(bounds, bounds[1:], tensors['prompts'])]

    def assert_refused(self, done, code, *parts):
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertEqual(done.stderr.count('\n'), 1, done.stderr)
        for part in parts:
            self.assertIn(part, done.stderr)


class WholeModel(Scene):
    def test_hidden_states_are_those_of_the_program(self):
        for model, prompts, layers, error in ((TALES, STORIES, '2,4,5,last', 0.03), (self.tiny('qwen2'), TINY, '1,2,3,last', 1e-3),
                                              (self.tiny('qwen3'), TINY, '1,2,3,last', 1e-3)):
            whole, tensors = load(model), self.features(model, prompts, layers)
            for first, end in zip(tensors['texts'], tensors['texts'][1:]):
                made = whole.hidden(torch.from_numpy(tensors['ids'][first:end].astype('i8'))[None], layers.split(','))
                for name, rows in made.items():
                    wanted = torch.from_numpy(tensors[f'hidden.{name}'][first + 1:end].copy())  # the first row may be far greater
                    self.assertLess((rows[0, 1:] - wanted).norm() / wanted.norm(), error, f'{model} layer {name}')

    def test_padding_and_an_older_pytorch_change_nothing(self):
        whole = load(self.tiny('qwen3'))
        ids = torch.arange(40).view(2, 20) + 7
        both = whole.hidden(ids, ['2', 'last'])
        alone = whole.hidden(ids[1:, :12], ['2', 'last'])
        own = functional.__dict__.pop('scaled_dot_product_attention', None)
        try:
            older = whole.hidden(ids, ['2', 'last'])
        finally:
            if own:
                functional.scaled_dot_product_attention = own
        for name, rows in both.items():
            self.assertLess(abs(rows[1, :12] - alone[name][0]).max(), 1e-4)
            self.assertLess(abs(rows - older[name]).max(), 1e-4)

    def test_greedy_texts_are_those_of_the_program(self):
        prompts = [json.loads(program('tokenize', '-m', TALES, '-p', story, '--ids')) for story in STORIES]
        out, same = self.folder / 'run.json', 0
        texts = load(TALES).generate(prompts, 24)
        for story, prompt, text in zip(STORIES, prompts, texts):
            program('run', '-m', TALES, '-p', story, '-n', 24, '--strategy', 'iterative', '--json', out)
            self.assertEqual(text[:len(prompt)].tolist(), prompt)
            wanted, made = json.loads(out.read_text())['token_ids'], text[len(prompt):].tolist()
            self.assertEqual(len(made), len(wanted))
            same += next((i for i, pair in enumerate(zip(wanted, made)) if pair[0] != pair[1]), len(made))
        self.assertGreater(same, 0.8 * 24 * len(STORIES), 'nearly equal logits may differ')

    def test_a_text_ends_with_its_first_stop(self):
        whole = load(TALES)
        (text,) = whole.generate([[1, 1955, 674]], 12)
        stop = int(text[7])
        end = text.tolist().index(stop, 3)
        for other in ([1, 1955], [1, 1955, 674, 261, 519]):
            ended = whole.generate([[1, 1955, 674], other], 12, stops={stop})
            self.assertEqual(ended[0].tolist(), text[:end + 1].tolist())
            self.assertLessEqual(len(ended[1]), len(other) + 12)

    def test_sampling_has_the_probabilities_of_the_logits(self):
        wanted = torch.tensor([0.6, 0.3, 0.1])
        chosen = whole_target.choose(wanted.log().repeat(4000, 1), 1.0, torch.Generator().manual_seed(1))
        self.assertLess(abs(torch.bincount(chosen) / 4000 - wanted).max(), 0.03)

    def test_what_is_not_computed_is_named(self):
        ids = {'ids': numpy.arange(20, dtype='i4'), 'texts': numpy.array([0, 10, 20]), 'prompts': numpy.array([3, 3])}
        safetensors_file.write(self.folder / 'ids.st', ids, {})
        for family, part in (('mixtral', 'has layers with experts'), ('llama-bias', '.bias, for which'), ('olmo2', 'of the family olmo2')):
            model = self.tiny(family)
            self.assert_refused(self.write_texts('refused.st', model=model), 2, str(model), part)
            done = run('train-heads', 'medusa', '-m', model, '-f', self.folder / 'ids.st', '-o', self.folder / 'refused')
            self.assert_refused(done, 2, str(model), part)
        self.assertFalse((self.folder / 'refused.st').exists() or (self.folder / 'refused').exists())


class Texts(Scene):
    def test_texts_are_questions_of_the_model_and_its_greedy_answers(self):
        done = self.write_texts('t.st', '--batch', '16')
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn('24 of 24 texts', done.stderr)
        texts = self.texts('t.st')
        self.assertEqual(len(texts), 24)
        self.assertEqual(len({tuple(ids[:prompt]) for ids, prompt in texts}), 24)
        self.assertGreater(len({ids[1] for ids, _ in texts}), 12, 'half of them begin with different tokens')
        whole = load(TALES)
        for ids, prompt in texts:
            self.assertEqual((ids[0], prompt <= 10), (1, True))
        for ids, prompt in texts[:3]:
            self.assertEqual(whole.generate([ids[:prompt]], 20, stops={2})[0].tolist(), ids)

    def test_a_seed_gives_the_same_texts_again(self):
        for out, more in (('a.st', []), ('b.st', []), ('c.st', ['--seed', '2']), ('d.st', ['--temperature', '1'])):
            self.assertEqual(self.write_texts(out, *more).returncode, 0)
        a, b, c, d = (self.texts(f'{name}.st') for name in 'abcd')
        self.assertEqual(a, b)
        self.assertFalse({tuple(ids) for ids, _ in a} & {tuple(ids) for ids, _ in c})
        self.assertEqual([ids[:prompt] for ids, prompt in a[:8]], [ids[:prompt] for ids, prompt in d[:8]])
        self.assertNotEqual(a, d)

    def test_a_prompt_format_stands_around_the_questions(self):
        before, king, after = (json.loads(program('tokenize', '-m', TALES, '-p', text, '--ids'))
                               for text in ('Said the king:\n', 'The king', 'The king, said he.\nSo'))
        self.assertEqual(after[:len(king)], king)
        after = after[len(king):]
        self.assertEqual(self.write_texts('f.st', '--prompt-format', 'Said the king:\\n{}, said he.\\nSo').returncode, 0)
        lengths = set()
        for ids, prompt in self.texts('f.st'):
            self.assertEqual((ids[:len(before)], ids[prompt - len(after):prompt]), (before, after))
            question, answer = ids[len(before):prompt - len(after)], ids[prompt:]
            self.assertNotIn(after[0], question + answer[:-1])
            lengths.add(len(question))
            self.assertTrue(1 <= len(question) <= 9 and 1 <= len(answer) <= 20)
        self.assertLess(min(lengths), 9, 'some questions end before a comma')

    def test_ctrl_c_leaves_the_texts_that_are_complete(self):
        write = text_writer_of_two_batches()
        for complete, written in ((0, None), (1, 8)):
            with self.subTest(complete=complete), write(complete), self.assertRaises(KeyboardInterrupt):
                self.write_texts(f'cut{complete}.st', '--batch', '8')
            path = self.folder / f'cut{complete}.st'
            self.assertEqual(len(self.texts(path.name)) if path.exists() else None, written)
            self.assertFalse(list(self.folder.glob('*-part')))

    def test_bad_usage_is_named_before_the_model_is_loaded(self):
        (self.folder / 'mine').write_text('my notes')
        for more, code, part in ((['--prompt-format', 'no place'], 1, '--prompt-format'), (['--texts', '0'], 1, '--texts'),
                                 (['-o', self.folder / 'mine'], 1, 'is not a file of texts, so it is not replaced; choose another file'),
                                 (['-o', TALES], 1, 'would be overwritten'), (['-o', self.folder / 'none' / 'x'], 1, 'is no folder'),
                                 (['--answer-tokens', '1015', '--texts', '2'], 1, '1025 tokens, but the model has a context of 1024'),
                                 (['-m', self.folder / 'absent.gguf'], 2, 'absent.gguf does not exist')):
            self.assert_refused(self.write_texts('x.st', *more), code, part)
        with unittest.mock.patch.dict('os.environ', YAMATA_BUILD=str(self.folder)):
            self.assert_refused(self.write_texts('x.st'), 2, 'yamata, which tokenizes, is missing; build it')
        (self.folder / 'x-00002.st').write_text('')
        self.assert_refused(self.write_texts('x.st'), 1, 'x-00002.st would continue the texts of')
        self.assertFalse((self.folder / 'x.st').exists())

    def test_too_little_memory_and_a_device_that_is_not_there_are_named(self):
        for words in ('CUDA out of memory. Tried to allocate 9 GiB', "[enforce fail] DefaultCPUAllocator: can't allocate memory"):
            with unittest.mock.patch.object(whole_target.WholeTarget, 'generate', side_effect=RuntimeError(words)):
                self.assert_refused(self.write_texts('memory.st'), 2, 'write-texts: the memory is too small; give a smaller --batch\n')
        with unittest.mock.patch.object(whole_target.WholeTarget, 'generate', side_effect=RuntimeError('size mismatch')):
            self.assertRaisesRegex(RuntimeError, 'size mismatch', self.write_texts, 'memory.st')
        for device in ('nonsense', 'meta'):
            self.assert_refused(self.write_texts('memory.st', '--device', device), 1, f'write-texts: --device {device}: ', '; give cpu\n')

    def test_a_model_that_writes_nothing_new_is_no_endless_loop(self):
        with unittest.mock.patch.object(whole_target.WholeTarget, 'generate', lambda self, prompts, *_: [numpy.array([*p, 5, 5, 5])
                                                                                                         for p in prompts[-1:]]):
            done = self.write_texts('x.st', '--batch', '4')
        self.assertEqual((done.returncode, done.stderr.splitlines()[1:]), (2, [
            'write-texts: the model wrote nothing new after 1 texts; give a fitting --prompt-format, or fewer --texts']))


def text_writer_of_two_batches():
    """Of launch/write-texts: (complete) -> a context in which Ctrl-C comes after this many complete batches."""
    from training import text_writer
    write = text_writer.Writer.write

    def context(complete):
        calls = iter(range(complete))

        def interrupted(self, count):
            if next(calls, None) is None:
                raise KeyboardInterrupt
            return write(self, count)[:8]
        return unittest.mock.patch.object(text_writer.Writer, 'write', interrupted)
    return context


class Online(Scene):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        with contextlib.redirect_stdout(None):
            run('write-texts', '-m', TALES, '-o', cls.folder / 'texts.st', '--texts', 40, '--question-tokens', 8, '--answer-tokens', 24)

    def flags(self, out, *more, kind=EAGLE3, texts='texts.st'):
        return [*kind, '-m', str(TALES), '-f', str(self.folder / texts), '-o', str(self.folder / out), '--steps', '8', '--batch', '256',
                '--evaluate-every', '4', '--warm-up', '1', '--threads', '1', *map(str, more)]

    def prepared(self, out, *more, **changes):
        (self.folder / out).mkdir(exist_ok=True)
        return command.prepare(options.read(self.flags(out, *more, **changes), ''))[0]

    def test_a_head_learns_from_texts_without_hidden_states(self):
        for kind in (EAGLE3, ('medusa', '--heads', '2', '--shared-output')):
            done = run('train-heads', *self.flags(f'head-{kind[0]}', kind=kind))
            self.assertEqual(done.returncode, 0, done.stderr)
            losses = [float(line.split('loss ')[1].split(',')[0]) for line in done.stderr.splitlines() if 'loss' in line]
            self.assertLess(losses[1], losses[0])
            self.assertTrue((self.folder / f'head-{kind[0]}' / 'model.safetensors').exists())

    def test_batches_have_the_hidden_states_of_the_program(self):
        tensors = self.features(TALES, STORIES, 'eagle3,last')
        safetensors_file.write(self.folder / 'ids.st', {name: tensors[name] for name in ('ids', 'texts', 'prompts')}, {})
        online, stored = (self.prepared(f'same-{name}', '--held-out', self.folder / name, texts=name)
                          for name in ('ids.st', 'features.safetensors'))
        (one,), (other,) = online.held_out.batches, stored.held_out.batches
        self.assertTrue(torch.equal(one.ids, other.ids))
        for name, rows in other.hidden.items():
            known = torch.arange(rows.shape[1])[None] < other.lengths[:, None]
            known[:, 0] = False
            self.assertLess((one.hidden[name] - rows)[known].norm() / rows[known].norm(), 0.03, name)
        for choices, others in zip(online.held_out.choices, stored.held_out.choices):
            self.assertGreater((choices == others)[torch.arange(choices.shape[1])[None] < other.lengths[:, None]].float().mean(), 0.9)

    def test_an_interrupted_training_ends_with_the_same_bits(self):
        whole = self.prepared('whole')
        self.assertTrue(quiet(whole))
        self.assertFalse(quiet(self.prepared('parts'), 5))
        parts = self.prepared('parts')
        self.assertEqual(parts.done, 5)
        self.assertTrue(quiet(parts))
        self.assertEqual(parts.losses, whole.losses)
        for name, values in whole.head.state_dict().items():
            self.assertTrue(torch.equal(values, parts.head.state_dict()[name]), name)

    def test_mixed_and_damaged_files_are_refused(self):
        self.features(TALES, STORIES, 'eagle3,last', 'with.st')
        mixed = f'{self.folder / "with.st"} has hidden states and {self.folder / "texts.st"} has none; give files of one kind'
        for more in (['-f', self.folder / 'with.st'], ['--held-out', self.folder / 'with.st']):
            self.assert_refused(run('train-heads', *self.flags('refused', *more)), 2, mixed)
        whole = (self.folder / 'texts.st').read_bytes()
        (self.folder / 'cut.st').write_bytes(whole[:-100])
        self.assert_refused(run('train-heads', *self.flags('refused', '-f', self.folder / 'cut.st')), 2, 'cut.st is not a complete')
        self.assertFalse((self.folder / 'refused').exists())
        self.assert_refused(self.write_texts('with.st'), 1, 'with.st exists and is not a file of texts')

    def test_texts_of_another_model_are_warned_of(self):
        self.features(self.tiny('qwen3'), TINY, 'last', 'tiny.st')
        for name, other in (('texts.st', True), ('tiny.st', False)):
            _, metadata = safetensors_file.read(self.folder / name)
            self.assertEqual(metadata, {'model': target.ModelFile(TALES).name} if other else {})
        tensors, _ = safetensors_file.read(self.folder / 'texts.st')
        safetensors_file.write(self.folder / 'other.st', tensors, {'model': 'Another'})
        flags = self.flags('warned', '-f', self.folder / 'other.st', '--minutes', '0')
        warnings = [line for line in run('train-heads', *flags).stderr.splitlines() if 'warning' in line]
        self.assertEqual(len(warnings), 1)
        self.assertIn(f"{self.folder / 'other.st'} was written by the model 'Another', not by '", warnings[0])

    def test_values_beyond_half_precision_are_named(self):
        whole = load(TALES)
        whole.parts.norm[:] = float('inf')
        for dtype, cause in ((torch.float32, 'its weights or their scales may be damaged'), (torch.float16, 'exceed half precision; use')):
            whole.dtype = dtype
            unchanged = unittest.mock.patch.object(whole_target.WholeTarget, 'layer', lambda _, x, *__: x)
            with self.assertRaisesRegex(Exception, cause), unchanged:
                whole.hidden(torch.tensor([[1, 2, 3]]), ['last'])


if __name__ == '__main__':
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
