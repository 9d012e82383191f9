"""A model embedded in a larger shape writes the small one's text, and embedded heads guess from it what the small ones guess.

    inflate_test.py YAMATA
"""
import json
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PROGRAM = sys.argv.pop(1)
MODELS = ROOT / 'models'
TARGET = MODELS / 'tales-target-q8_0.gguf'
PROMPT = 'Once upon a time there was a miller who had'
# The number of query heads per key/value head is twice the small model's. The width is four times as large, so norms are scaled exactly by
# 1/2.
SHAPE = dict(dim=1024, layers=11, heads=16, kv_heads=4, ffn=1536)


def inflate(source, to, **other):
    flags = [word for key, value in {**SHAPE, **other}.items() for word in ('--' + key.replace('_', '-'), str(value))]
    return subprocess.run([ROOT / 'launch' / 'inflate', source, to, *flags], capture_output=True, text=True)


class Inflate(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.made = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.made.name)
        cls.large = cls.folder / 'large.gguf'
        done = inflate(TARGET, cls.large)
        assert done.returncode == 0, done.stderr

    @classmethod
    def tearDownClass(cls):
        cls.made.cleanup()

    def text(self, model):
        return subprocess.run([PROGRAM, 'run', '-m', model, '-p', PROMPT, '-n', '24', '-t', '1', '--ignore-eos'], check=True,
                              capture_output=True, text=True).stdout

    def rates(self, model, heads):
        prompts, result = self.folder / 'prompts.jsonl', self.folder / 'rates.json'
        prompts.write_text(json.dumps({'turns': [PROMPT]}) + '\n')
        subprocess.run([PROGRAM, 'acceptance', '-m', model, '--heads', heads, '-f', prompts, '-n', '48', '-t', '1', '--no-lookup',
                        '--ignore-eos', '--json', result], check=True, capture_output=True)
        return json.loads(result.read_text())['sources'][0]['accuracies'][:4]

    def test_text_is_the_small_models(self):
        self.assertEqual(self.text(TARGET)[:60], self.text(self.large)[:60])  # rounding differs, so the end of the text may differ, too

    def test_heads_guess_what_the_small_ones_guess(self):
        for kind in ('dgf', 'medusa'):
            with self.subTest(kind):
                small, large = MODELS / f'tales-{kind}.safetensors', self.folder / f'{kind}.safetensors'
                done = inflate(small, large)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertGreater(large.stat().st_size, 4 * small.stat().st_size)
                self.assertEqual(self.rates(TARGET, small), self.rates(self.large, large))

    def test_what_cannot_be_embedded_is_refused_in_a_line(self):
        other = self.folder / 'other.safetensors'
        other.write_bytes(b'\x02\0\0\0\0\0\0\0{}')
        part = self.folder / 'part-00001-of-00003.gguf'
        data = TARGET.read_bytes()
        pairs = struct.unpack_from('<Q', data, 16)[0]
        part.write_bytes(data[:16] + struct.pack('<QQ11sIH', pairs + 1, 11, b'split.count', 2, 3) + data[24:])
        for source, shape, cause in ((TARGET, dict(layers=4),
                                      'the shape has --layers 4, but the file to embed needs at least 8; change it with --layers 8, or '
                                      'give --shape 1.1b or 0.3b or 0.1b\n'),
                                     (other, {}, 'holds neither Medusa heads'),
                                     (part, {}, '00003.gguf is one of the 3 files of a split model; join them with llama.cpp: '),
                                     (MODELS / 'tales-dgf.safetensors', dict(ffn=512),
                                      'the shape has --ffn 512, but the file to embed needs at least 768; change it with --ffn 768, or '
                                      'give --shape '),
                                     (MODELS / 'README.md', {},
                                      'is no GGUF file of version 2 or 3; name a GGUF file of the llama architecture, or heads')):
            with self.subTest(cause):
                done = inflate(source, self.folder / 'refused', **shape)
                self.assertEqual(done.returncode, 1)
                self.assertIn(cause, done.stderr)
                self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
                self.assertFalse((self.folder / 'refused').exists())

    def test_small_file_is_not_overwritten(self):
        for source in (TARGET, MODELS / 'tales-dgf.safetensors'):
            small = self.folder / source.name
            small.write_bytes(source.read_bytes())
            link, part = self.folder / 'link', self.folder / 'linked.yamata-part'
            link.symlink_to(small)
            part.symlink_to(small)
            for out in (small, link, self.folder / 'linked'):
                with self.subTest(out.name):
                    done = inflate(small, out)
                    self.assertEqual((done.returncode, done.stderr), (1, f'inflate: {small} would be overwritten; write to another file\n'))
            self.assertEqual(small.read_bytes(), source.read_bytes())
            link.unlink()
            part.unlink()

    def test_files_that_cannot_be_read_or_written_are_named(self):
        cut = self.folder / 'cut.gguf'
        cut.write_bytes(TARGET.read_bytes()[:1000])
        strange = self.folder / 'strange.gguf'
        strange.write_bytes(TARGET.read_bytes()[:24] + struct.pack('<Q3sI', 3, b'key', 77) + bytes(100))
        heads = {'array': b'[]', 'number': b'{"0.weight": 5}',
                 'far': b'{"0.weight": {"dtype": "F16", "shape": [1], "data_offsets": [0, 9]}}'}
        for name, header in heads.items():
            (self.folder / f'{name}.safetensors').write_bytes(struct.pack('<Q', len(header)) + header)
        for code, source, out, words in ((1, self.folder / 'array.safetensors', 'l.safetensors',
                                          'array.safetensors is no safetensors file'),
                                         (2, self.folder / 'number.safetensors', 'l.safetensors',
                                          'number.safetensors is not a safetensors file: 0.weight is not an object; name a GGUF file'),
                                         (2, self.folder / 'far.safetensors', 'l.safetensors', 'far.safetensors is cut short or damaged'),
                                         (2, strange, 'l.gguf', 'strange.gguf is cut short or damaged'),
                                         (2, self.folder / 'absent', 'l.gguf',
                                          'absent cannot be read (No such file or directory); name a GGUF file'),
                                         (1, TARGET, 'nowhere/l.gguf',
                                          'nowhere/l.gguf cannot be written (No such file or directory); choose another place'),
                                         (2, cut, 'l.gguf', 'cut.gguf is cut short')):
            with self.subTest(words):
                done = inflate(source, self.folder / out)
                self.assertEqual(done.returncode, code)
                self.assertIn(words, done.stderr)
                self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)


if __name__ == '__main__':
    unittest.main()
