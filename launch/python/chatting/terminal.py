"""The chat in a terminal: lines that the user writes, commands among them, and answers as they come."""
import glob
import os
import pathlib
import re
import sys

from common import files
from common.problem import Problem

HISTORY_LINES = 1000
MAX_FILE_BYTES = 4 << 20
DIM, PLAIN = '\x1b[2m', '\x1b[0m'
BOLD_PROMPT = '\x01\x1b[1m\x02> \x01\x1b[0m\x02'  # readline does not count what is between \x01 and \x02
HELP = '''/system [TEXT]   show the system prompt, or set it; "/system -" removes it
/regenerate      another answer to the last message
/file FILE       put the text of a file before the next message
/save FILE       write the chat: as JSON if the name ends in .json, else as Markdown
/new             begin a new chat
/help            this list
Ctrl-C ends an answer, Ctrl-D the chat. A line that ends with \\ goes on in the next. A message that begins with / has two of them.
'''


def harmless(text):
    """A text of the model without the control characters with which it could steer the terminal."""
    return re.sub(r'[\x00-\x08\x0b-\x1f\x7f-\x9f]', '', text)


def history_file():
    return pathlib.Path(os.environ.get('XDG_CACHE_HOME') or pathlib.Path.home() / '.cache') / 'yamata' / 'chat-history'


class Lines:
    """What the user writes, with editing and history if it is a terminal."""

    def __init__(self):
        self.terminal, self.readline = sys.stdin.isatty() and sys.stdout.isatty(), None
        if not self.terminal:
            return
        try:
            import readline
        except ImportError:  # a Python without it: lines can be written, but not edited
            return
        self.readline = readline
        readline.set_history_length(HISTORY_LINES)
        try:
            readline.read_history_file(history_file())
        except (OSError, UnicodeDecodeError):
            pass  # none yet
        readline.set_completer_delims(' ')
        readline.set_completer(self.complete)
        readline.parse_and_bind('tab: complete')

    def complete(self, word, number):
        line = self.readline.get_line_buffer()
        if re.match(r'/(save|file) ', line):
            found = [path + '/' * os.path.isdir(path) for path in sorted(glob.glob(glob.escape(os.path.expanduser(word)) + '*'))]
        else:
            found = [name for name in re.findall(r'^/\w+', HELP, re.M) if line == word and name.startswith(word)]
        return found[number] if number < len(found) else None

    def read(self):
        """The next message; lines that end with a backslash go on. Raises EOFError, KeyboardInterrupt."""
        lines, prompt = [], (BOLD_PROMPT if self.readline else '> ') if self.terminal else ''
        while True:
            lines.append(input(prompt))
            if not lines[-1].endswith('\\'):
                return '\n'.join(lines)
            lines[-1] = lines[-1][:-1]
            prompt = '… ' if self.terminal else ''

    def keep(self):
        """Writes the history, for its owner alone."""
        if not self.readline:
            return
        place = history_file()
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            os.close(os.open(place, os.O_WRONLY | os.O_CREAT, 0o600))
            self.readline.write_history_file(place)
        except OSError:
            pass  # a home that cannot be written to


class Terminal:
    """Runs a Conversation. `verbose`: a line of statistics after each answer. `check()` is called after a failure, and raises Problem if it
    makes no sense to go on."""

    def __init__(self, conversation, lines, verbose, check=lambda: None):
        self.conversation, self.lines, self.verbose, self.check = conversation, lines, verbose, check
        self.colours = sys.stdout.isatty() and os.environ.get('TERM') != 'dumb'
        self.attached, self.dim = [], False
        self.commands = {'/system': self.set_system, '/regenerate': self.regenerate, '/file': self.attach, '/save': self.save,
                         '/new': self.begin_anew, '/help': self.help}

    def run(self):
        """Until the end of the input. Returns the exit code: 2 if an answer failed and nobody is there to try again."""
        while True:
            try:
                line = self.lines.read()
            except EOFError:
                if self.lines.terminal:
                    print()
                return 0
            except KeyboardInterrupt:  # drops the line
                if not self.lines.terminal:
                    raise
                print()
                continue
            try:
                self.obey(line)
            except Problem as problem:
                sys.stdout.flush()
                if problem.code == 2:
                    self.check()
                print(f'chat: {problem}', file=sys.stderr)
                if not self.lines.terminal:
                    return problem.code

    def obey(self, line):
        word, _, rest = line.strip().partition(' ')
        if re.match('/(?!/)', line):
            if word not in self.commands:
                raise Problem(f"there is no command '{word}'; /help lists them")
            self.commands[word](rest.strip())
        elif line.strip() or self.attached:
            text = re.sub('^//', '/', line)
            self.ask('\n\n'.join([*self.attached, text] if text.strip() else self.attached))

    def ask(self, text):
        self.attached, stopped = [], False
        try:
            answer = self.conversation.ask(text, self.show)
        except KeyboardInterrupt:
            stopped = True
        finally:
            self.end_dim()
            print(flush=True)
        if stopped:
            if not self.lines.terminal:
                raise KeyboardInterrupt
            return print('[stopped]', file=sys.stderr)
        if not answer.text and not answer.thinking:
            print('[the model ended its answer at once]', file=sys.stderr)
        if answer.finish == 'length':
            print('[the answer ended at the limit of its length]', file=sys.stderr)
        if self.verbose and (said := answer.statistics()):
            print(f'[{said}]', file=sys.stderr)
        return None

    def show(self, thinking, text):
        """Shows a piece of the answer; thinking is dim, and only for people."""
        if thinking and self.colours:
            sys.stdout.write(('' if self.dim else DIM) + harmless(thinking))
            self.dim = True
        if text:
            self.end_dim('\n\n')
            sys.stdout.write(harmless(text))
        sys.stdout.flush()

    def end_dim(self, then=''):
        if self.dim:
            sys.stdout.write(PLAIN + then)
        self.dim = False

    def set_system(self, text):
        if text:
            self.conversation.system = '' if text == '-' else text
        print(harmless(self.conversation.system) or 'There is no system prompt.')

    def regenerate(self, _):
        self.ask(self.conversation.last_question())

    def attach(self, name):
        if not name:
            raise Problem('name the file: /file FILE')
        path = os.path.expanduser(name)
        with files.reading(path, 'name another', 1):
            if os.path.getsize(path) > MAX_FILE_BYTES:
                raise Problem(f'{path} is larger than {MAX_FILE_BYTES >> 20} MiB; name a smaller file')
            data = pathlib.Path(path).read_bytes()
        try:
            text = data.decode()
        except UnicodeDecodeError:
            raise Problem(f'{path} is no text in UTF-8; name another') from None
        self.attached.append(f'{os.path.basename(path)}:\n```\n{text.rstrip()}\n```')
        print(f'{path} goes with the next message.')

    def save(self, name):
        if not name:
            raise Problem('name the file: /save FILE')
        if not self.conversation.messages:
            raise Problem('there is nothing to save yet')
        path = os.path.expanduser(name)
        if os.path.exists(path) and not os.path.isfile(path):
            raise Problem(f'{path} is no regular file; name another')
        if os.path.isfile(path) and path != getattr(self, 'saved', None) and os.path.getsize(path):
            raise Problem(f'{path} exists, and was not written by this chat; name another')
        files.write_whole(path, self.conversation.saved(path.endswith('.json')).encode(), 'name another file', 1)
        self.saved = path
        print(f'The chat is in {path}.')

    def begin_anew(self, _):
        self.conversation.clear()
        self.attached = []
        print('A new chat.')

    def help(self, _):
        print(HELP, end='')
