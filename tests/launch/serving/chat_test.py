#!/usr/bin/env python3
"""Tests launch/chat, in a terminal and without one, over a server that behaves as launch/serve."""
import codecs
import contextlib
import json
import os
import pathlib
import pty
import re
import select
import signal
import stat
import subprocess
import sys
import tempfile
import termios
import time
import unittest

sys.dont_write_bytecode = True
import scene
from server_double import HOSTILE, Double

CHAT = pathlib.Path(__file__).resolve().parents[3] / 'launch' / 'chat'
PATIENCE_S = 60 * int(os.environ.get('YAMATA_PATIENCE', 1))
UP, CTRL_C, CTRL_D = '\x1b[A', '\x03', '\x04'


class Chat(contextlib.AbstractContextManager):
    """launch/chat in a pseudo-terminal. `seen`: all that came."""

    def __init__(self, home, *flags):
        self.terminal, inner = pty.openpty()
        environment = os.environ | {'XDG_CACHE_HOME': str(home), 'TERM': 'xterm', 'INPUTRC': '/dev/null'}

        def take_terminal():
            import fcntl
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        self.process = subprocess.Popen([CHAT, *flags], stdin=inner, stdout=inner, stderr=inner, start_new_session=True, env=environment,
                                        preexec_fn=take_terminal)
        os.close(inner)
        self.seen, self.read_to, self.decoder = '', 0, codecs.getincrementaldecoder('utf-8')()

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        os.close(self.terminal)

    def comes(self, text):
        """Whether a text comes within a second."""
        with contextlib.suppress(TimeoutError):
            self.expect(text, 1)
            return True
        return False

    def expect(self, text, patience_s=PATIENCE_S):
        """Waits until a text comes, and returns what came before it since the last one."""
        deadline = time.monotonic() + patience_s
        while (at := self.seen.find(text, self.read_to)) < 0:
            if not select.select([self.terminal], [], [], max(0, deadline - time.monotonic()))[0]:
                raise TimeoutError(f'{text!r} did not come after {self.seen[self.read_to:]!r}')
            try:
                data = os.read(self.terminal, 65536)
            except OSError:  # it has ended
                raise EOFError(f'{text!r} did not come before the end, after {self.seen[self.read_to:]!r}') from None
            self.seen += self.decoder.decode(data)
        before, self.read_to = self.seen[self.read_to:at], at + len(text)
        return before

    def write(self, text):
        os.write(self.terminal, text.encode())

    def prompt(self):
        """Waits for the prompt, and returns what came before it."""
        return self.expect('> ')

    def say(self, line):
        """Writes a line, and returns what comes until the next prompt."""
        self.write(line + '\r')
        self.expect('\n')
        return self.prompt().replace('\r', '')

    def end(self):
        """Ctrl-D; the exit code."""
        self.write(CTRL_D)
        with contextlib.suppress(EOFError, TimeoutError):
            self.expect('never')
        return self.process.wait(PATIENCE_S)


class InTerminal(unittest.TestCase):
    def setUp(self):
        self.home = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.server = self.enterContext(Double())
        self.chat = self.start()

    def start(self, *flags):
        chat = self.enterContext(Chat(self.home, '--url', self.server.url, *flags))
        chat.prompt()
        return chat

    def messages(self):
        return [(message['role'], message['content']) for message in self.server.bodies[-1]['messages']]

    def test_a_chat_and_its_end(self):
        self.assertIn('You said: hello you', self.chat.say('hello you'))
        self.chat.say('and now')
        self.assertEqual(self.messages(), [('user', 'hello you'), ('assistant', 'You said: hello you'), ('user', 'and now')])
        self.chat.write('some words')
        self.chat.expect('some words')
        while not self.chat.comes('> '):  # Python sees a signal late that comes just before it waits for a key
            self.chat.write(CTRL_C)
        self.assertEqual(self.chat.end(), 0)
        self.assertEqual(len(self.server.bodies), 2)

    def test_ctrl_c_ends_the_answer(self):
        self.chat.write('slow please\r')
        self.chat.expect('These words come at once.')
        self.chat.write(CTRL_C)
        self.chat.expect('[stopped]')
        self.assertTrue(self.server.went.acquire(timeout=PATIENCE_S), 'the server was not told')
        self.chat.prompt()
        self.chat.say('go on')
        self.assertEqual(self.messages()[:2], [('user', 'slow please'), ('assistant', 'These words come at once. ')])

    def test_ctrl_c_before_the_first_word_takes_the_message_back(self):
        self.chat.write('read this\r')
        while not self.server.busy:
            select.select([], [], [], .01)
        self.chat.write(CTRL_C)
        self.chat.expect('[stopped]')
        self.chat.prompt()
        self.chat.say('other')
        self.assertEqual(self.messages(), [('user', 'other')])

    def test_system_prompt_and_flags(self):
        chat = self.start('--system', 'Be brief.', '--temp', '0', '-n', '7', '-v')
        said = chat.say('hello')
        self.assertIn('[40 tokens at 20.0 tokens/s, first after', said)
        self.assertIn('30 of 50 guesses accepted, 12 tokens of prompt]', said)
        body = self.server.bodies[-1]
        self.assertEqual((body['temperature'], body['max_tokens'], self.messages()[0]), (0, 7, ('system', 'Be brief.')))
        self.assertIn('Be brief.', chat.say('/system'))
        chat.say('/system Be long.')
        chat.say('again')
        self.assertEqual(self.messages()[0], ('system', 'Be long.'))
        chat.say('/system -')
        chat.say('and again')
        self.assertEqual(self.messages()[0][0], 'user')

    def test_regenerate_and_new(self):
        self.assertIn('nothing has been said yet', self.chat.say('/regenerate'))
        self.chat.say('one')
        self.chat.say('two')
        self.chat.say('/regenerate')
        self.assertEqual(self.server.bodies[-1], self.server.bodies[-2])
        self.chat.say('/new')
        self.chat.say('three')
        self.assertEqual(self.messages(), [('user', 'three')])

    def test_a_message_that_failed_can_be_asked_again(self):
        self.assertIn('chat: something is wrong with this request\n', self.chat.say('refuse this'))
        self.chat.say('other')
        self.assertEqual(self.messages(), [('user', 'other')])
        self.chat.say('full of it')
        self.assertIn('the queue is full', self.chat.say('/regenerate'))
        self.assertEqual(self.messages()[-1], ('user', 'full of it'))
        said = self.chat.say('fail in the middle')
        self.assertIn('Half an answer', said)
        self.assertIn('chat: machine cellar is lost', said)
        self.assertIn('before it was complete', self.chat.say('cut'))

    def test_files(self):
        self.assertIn('nothing to save', self.chat.say(f'/save {self.home}/chat.json'))
        (self.home / 'notes.txt').write_text('first line\nsecond line\n')
        self.chat.say(f'/file {self.home}/notes.txt')
        self.chat.say('What is this?')
        self.assertEqual(self.messages()[-1][1], 'notes.txt:\n```\nfirst line\nsecond line\n```\n\nWhat is this?')
        self.assertIn('cannot be read', self.chat.say(f'/file {self.home}/none'))
        (self.home / 'bytes').write_bytes(b'\xff\xfe')
        self.assertIn('is no text', self.chat.say(f'/file {self.home}/bytes'))
        self.chat.say(f'/save {self.home}/chat.json')
        self.chat.say('more')
        self.chat.say(f'/save {self.home}/chat.json')
        saved = json.loads((self.home / 'chat.json').read_text())['messages']
        self.assertEqual([message['content'] for message in saved][2:], ['more', 'You said: more'])
        self.chat.say(f'/save {self.home}/chat.md')
        self.assertIn('## Assistant\n\nYou said: more\n', (self.home / 'chat.md').read_text())
        self.assertIn('was not written by this chat', self.chat.say(f'/save {self.home}/notes.txt'))
        self.assertEqual((self.home / 'notes.txt').read_text(), 'first line\nsecond line\n')

    def test_help_names_every_command_and_no_other_is_taken(self):
        for command in '/system', '/regenerate', '/file', '/save', '/new', '/help':
            self.assertIn(command, self.chat.say('/help'))
        self.assertIn("there is no command '/foo'", self.chat.say('/foo bar'))
        self.chat.say('//foo')
        self.assertEqual(self.messages(), [('user', '/foo')])
        self.chat.write('one \\\r')
        self.chat.expect('… ')
        self.chat.say('two')
        self.assertEqual(self.messages()[-1], ('user', 'one \ntwo'))

    def test_lines_can_be_edited_and_are_kept_for_the_next_chat(self):
        self.chat.say('hallo\x1b[D\x1b[D\x1b[D\x08e')  # the a becomes an e
        self.assertEqual(self.messages(), [('user', 'hello')])
        self.chat.say(UP)
        self.assertEqual(self.messages()[-1], ('user', 'hello'))
        self.assertEqual(self.chat.end(), 0)
        history = self.home / 'yamata' / 'chat-history'
        self.assertEqual(stat.S_IMODE(history.stat().st_mode), 0o600)
        self.start().say(UP)
        self.assertEqual(self.messages(), [('user', 'hello')])

    def test_tab_completes_commands_and_files(self):
        (self.home / 'notes.txt').write_text('text')
        self.chat.say('/reg\t')
        self.assertIn('goes with the next message', self.chat.say(f'/file {self.home}/no\t'))

    def test_thinking_is_dim_and_the_model_cannot_steer_the_terminal(self):
        self.assertIn('\x1b[2mFirst I look', self.chat.say('think of it'))
        said = self.chat.say('\x16\x1b]0;title\x16\x07 hello')  # Ctrl-V: the next key as it is
        self.assertIn('\x1b]0;title', self.messages()[-1][1])
        self.assertIn('You said: ]0;title hello', said)


class Elsewhere(unittest.TestCase):
    def setUp(self):
        self.server = self.enterContext(Double())
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def run_chat(self, *flags, text=''):
        return subprocess.run([CHAT, *flags], input=text, capture_output=True, text=True, timeout=PATIENCE_S, check=False,
                              env=os.environ | {'XDG_CACHE_HOME': str(self.folder)})

    def test_lines_of_a_pipe_are_messages(self):
        done = self.run_chat('--url', self.server.url, text='one\nthink two\n')
        self.assertEqual((done.returncode, done.stderr, done.stdout), (0, '', 'You said: one\nYou said: think two\n'))
        done = self.run_chat('--url', self.server.url.removeprefix('http://') + '/v1', text='fail now\nnext\n')
        self.assertEqual((done.returncode, done.stdout, done.stderr), (2, 'Half an answer\n', 'chat: machine cellar is lost\n'))
        self.assertEqual(len(self.server.bodies), 3)
        self.assertEqual(self.run_chat('--url', self.server.url, text='nothing\n').stderr, '[the model ended its answer at once]\n')

    def test_hostile_text_loses_its_control_characters_only(self):
        done = self.run_chat('--url', self.server.url, text='hostile\n')
        self.assertEqual(done.stdout, HOSTILE.replace('\0', '') + '\n')

    def test_a_key(self):
        self.server.key = 'open sesame'
        right, wrong = self.folder / 'right', self.folder / 'wrong'
        right.write_text('open sesame\n')
        wrong.write_text('other\n')
        self.assertEqual(self.run_chat('--url', self.server.url, '--api-key-file', str(right), text='hello\n').stdout, 'You said: hello\n')
        for flags in [], ['--api-key-file', str(wrong)]:
            done = self.run_chat('--url', self.server.url, *flags, text='hello\n')
            self.assertEqual(done.returncode, 2)
            self.assertIn('--api-key-file', done.stderr)
        wrong.write_text('\n')
        for name in wrong, self.folder / 'none':
            done = self.run_chat('--url', self.server.url, '--api-key-file', str(name))
            self.assertEqual((done.returncode, done.stderr.count('\n')), (1, 1), done.stderr)

    def test_what_is_wrong_is_said_in_a_line(self):
        self.server.shutdown()
        self.server.socket.close()
        for code, flags in (2, ['--url', self.server.url]), (1, ['--url', 'ftp://x']), (1, ['--url', 'http://']), (1, []), \
                (1, ['--url', 'http://x:y']), (1, ['--url', self.server.url, '-c', '100']), (1, ['-m', 'x', '--url', self.server.url]):
            done = self.run_chat(*flags, text='hello\n')
            self.assertEqual((done.returncode, done.stdout, done.stderr.count('\n')), (code, '', 1), (flags, done.stderr))
            self.assertRegex(done.stderr, '^chat: ')

    def test_it_waits_for_the_model(self):
        self.server.loaded = .5
        with subprocess.Popen([CHAT, '--url', self.server.url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            while self.server.looks < 2:
                select.select([], [], [], .01)
            self.server.loaded = 1
            self.assertEqual(process.communicate('hello\n', PATIENCE_S)[0], 'You said: hello\n')

    def test_ctrl_c_ends_a_script(self):
        with subprocess.Popen([CHAT, '--url', self.server.url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True) as process:
            process.stdin.write('slow please\n')
            process.stdin.flush()
            self.assertTrue(self.server.went is not None)
            os.read(process.stdout.fileno(), 100)
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=PATIENCE_S)
            self.assertEqual(process.returncode, 130)
            self.assertTrue(re.search('^chat: interrupted$', said, re.M), said)


@unittest.skipUnless(scene.packages.system_python_has(scene.packages.MODULES) or not scene.packages.missing(),
                     'no uvicorn or jinja2 here; launch/install-packages --serve')
class OwnServer(unittest.TestCase):
    def setUp(self):
        self.folder = scene.build_folder(self.enterContext(tempfile.TemporaryDirectory()))

    def run_chat(self, *flags, text='', **environment):
        return subprocess.run([CHAT, *flags], input=text, capture_output=True, text=True, timeout=PATIENCE_S, check=False,
                              env=os.environ | {'YAMATA_BUILD': str(self.folder), **environment})

    def processes(self):
        """Command lines that name this test's folder."""
        found = []
        for path in pathlib.Path('/proc').glob('[0-9]*/cmdline'):
            with contextlib.suppress(OSError):
                if self.folder.encode() in (line := path.read_bytes()):
                    found.append(line)
        return found

    def test_a_server_is_started_and_ended(self):
        key = pathlib.Path(self.folder, 'key')
        key.write_text('open sesame\n')
        key.chmod(0o600)
        done = self.run_chat('-m', f'{self.folder}/model.gguf', '--api-key-file', str(key), '--alias', 'x',
                             text='Say «say»hello there«end»\nand «say»good bye«end»\n')
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, 'hello there\ngood bye\n', ''))
        self.assertEqual(self.processes(), [])

    def test_a_server_that_does_not_start_says_why(self):
        done = self.run_chat('-m', f'{self.folder}/none.gguf', text='hello\n')
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(re.findall('^(serve|chat): ', done.stderr, re.M), ['serve', 'chat'], done.stderr)

    def test_an_engine_that_is_lost_goes_on_but_a_request_that_ends_each_one_fails(self):
        done = self.run_chat('-m', f'{self.folder}/model.gguf', text='«say»hello there«end»«gone 5»\n')
        self.assertEqual((done.returncode, done.stdout), (0, 'hello there\n'), done.stderr)
        done = self.run_chat('-m', f'{self.folder}/model.gguf', text='«die»\nhello\n')
        self.assertEqual((done.returncode, done.stdout), (2, '\n'), done.stderr)
        self.assertRegex(done.stderr, r'chat: the engine was lost: .*twice with this request; send another one\n$')

    def test_warnings_are_passed_on(self):
        done = self.run_chat('-m', f'{self.folder}/model.gguf', ENGINE_TEMPLATE='')
        self.assertRegex(done.stderr, '^warning: the model has no chat template')
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_its_port_is_not_chosen(self):
        for port in ['--port', '80'], ['--port=80']:
            done = self.run_chat('-m', f'{self.folder}/model.gguf', *port)
            self.assertEqual(done.returncode, 1)
            self.assertIn('a chat has a server of its own, at a free port', done.stderr)


if __name__ == '__main__':
    unittest.main()
