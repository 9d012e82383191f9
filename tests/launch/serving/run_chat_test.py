#!/usr/bin/env python3
"""Tests `yamata run --chat`: the message is wrapped in the template of the model's file. run_chat_test.py PROGRAM"""
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / 'launch' / 'python'))
from serving import packages

PROGRAM = pathlib.Path(sys.argv.pop(1)).resolve()
MODEL = ROOT / 'models' / 'tales-target-q8_0.gguf'
HEADER = struct.Struct('<4sIQQ')  # magic, version, numbers of tensors and of metadata pairs
TEMPLATE = '{{ bos_token }}Question: {{ messages[0].content }} Answer{% if add_generation_prompt %}:{% endif %}'


def with_template(path, template):
    """Writes the model with a chat template: a pair of metadata in front of the others, of a length that keeps tensors aligned."""
    data, key = MODEL.read_bytes(), b'tokenizer.chat_template'
    magic, version, tensors, pairs = HEADER.unpack_from(data)
    value = template.encode()
    size = 8 + len(key) + 4 + 8 + len(value)
    value += b'{#' + b' ' * ((28 - size) % 32) + b'#}'
    pair = struct.pack('<Q', len(key)) + key + struct.pack('<IQ', 8, len(value)) + value
    assert len(pair) % 32 == 0
    path.write_bytes(HEADER.pack(magic, version, tensors, pairs + 1) + pair + data[HEADER.size:])
    return path


class RunChat(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def run_yamata(self, *arguments, program=PROGRAM, launcher=(), text='', **environment):
        json_file = self.folder / 'result.json'
        done = subprocess.run([*launcher, program, 'run', *arguments, '-n', '4', '-t', '1', '--json', json_file], input=text, text=True,
                              capture_output=True, check=False, env=os.environ | environment)
        return done, json.loads(json_file.read_text())['prompt_token_ids'] if done.returncode == 0 else None

    def refused(self, *arguments, **more):
        """The line in which it is refused."""
        done, _ = self.run_yamata(*arguments, **more)
        self.assertEqual((done.returncode, done.stdout), (1, ''), done.stderr)
        self.assertEqual(done.stderr.count('\n'), 1, done.stderr)
        return done.stderr

    def test_the_template_of_the_file_is_used_and_begins_the_text_once(self):
        model = with_template(self.folder / 'model.gguf', TEMPLATE)
        message = 'Who are »you«\nthere?'
        _, expected = self.run_yamata('-m', MODEL, '-p', f'Question: {message} Answer:')
        done, ids = self.run_yamata('-m', model, '--chat', '-p', message)
        self.assertEqual(ids, expected, done.stderr)
        self.assertNotIn('warning', done.stderr)
        _, ids = self.run_yamata('-m', model, '--chat', '-f', '-', text=message, launcher=['mpirun', '--oversubscribe', '--bind-to', 'none',
                                                                                         '-np', '2'])
        self.assertEqual(ids, expected)
        _, ids = self.run_yamata('-m', model, '-p', message)
        self.assertLess(len(ids), len(expected))

    def test_without_a_template_it_is_chatml_with_a_warning(self):
        _, expected = self.run_yamata('-m', MODEL, '-p', '<|im_start|>user\nWho?<|im_end|>\n<|im_start|>assistant\n')
        done, ids = self.run_yamata('-m', MODEL, '--chat', '-p', 'Who?')
        self.assertEqual(ids, expected)
        self.assertIn('has no chat template', done.stderr)

    def test_what_is_wrong_with_a_template_is_said_in_a_line(self):
        for template, said in (("{{ raise_exception('no such roles') }}", 'no such roles'), ('{% if %}', 'TemplateSyntaxError'),
                               ("{{ ''.__class__.__mro__ }}", 'unsafe'), ("{{ 'x' * 10 ** 10 }}", 'memory')):
            model = with_template(self.folder / 'model.gguf', template)
            self.assertIn(said, self.refused('-m', model, '--chat', '-p', 'Who?'))

    def test_without_jinja2_the_command_that_installs_it_is_named(self):
        python = self.folder / 'python3'
        python.write_text(f'#!/bin/sh\nexec {sys.executable} -S -E "$@"\n')
        python.chmod(0o755)
        line = self.refused('-m', MODEL, '--chat', '-p', 'Who?', PATH=f'{self.folder}:{os.environ["PATH"]}', **{packages.AGAIN: '1'})
        self.assertIn('launch/install-packages --serve', line)

    def test_without_python_or_the_scripts_a_line_says_so(self):
        self.assertIn('cannot start python3', self.refused('-m', MODEL, '--chat', '-p', 'Who?', PATH=str(self.folder)))
        shutil.copy(PROGRAM, self.folder / 'yamata')
        self.assertIn('needs the scripts', self.refused('-m', MODEL, '--chat', '-p', 'Who?', program=self.folder / 'yamata'))


if __name__ == '__main__':
    if packages.missing(('jinja2',)) and not packages.system_python_has(('jinja2',)):
        print('skipped: no jinja2 here; launch/install-packages --serve installs it')
        sys.exit(77)
    unittest.main()
