"""yamata engine over pipes, for tests: alone or on several ranks of this machine, with the demonstration model."""
import json
import os
import pathlib
import subprocess

MODELS = pathlib.Path(__file__).resolve().parents[3] / 'models'
MODEL = str(MODELS / 'tales-target-q8_0.gguf')
FLAGS = ['-m', MODEL, '-t', '1', '-c', '160']
LIMIT_S = 60
ENVIRONMENT = os.environ | {'OMPI_ALLOW_RUN_AS_ROOT': '1', 'OMPI_ALLOW_RUN_AS_ROOT_CONFIRM': '1'}


class Engine:
    def __init__(self, program, ranks, *flags):
        launcher = ['mpirun', '-np', str(ranks), '--oversubscribe', '--bind-to', 'none'] if ranks > 1 else []
        split = [] if '--layer-split' in flags else ['--layer-split', 'bytes']
        usual = FLAGS[2:] if '-m' in flags else FLAGS
        self.process = subprocess.Popen([*launcher, program, 'engine', *usual, *split, *flags], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, env=ENVIRONMENT)
        self.ready = self.wait(lambda line: line['is'] == 'ready')

    def send(self, **line):
        self.process.stdin.write(json.dumps(line).encode() + b'\n')
        self.process.stdin.flush()

    def wait(self, wanted):
        for line in self.process.stdout:
            if wanted(line := json.loads(line)):
                return line
        raise AssertionError('the engine has ended')

    def answer(self, number):
        """(text, ids, last line) of a request."""
        text, ids = '', []
        while True:
            line = self.wait(lambda line: line.get('id') == number and line['is'] != 'prompt')
            if line['is'] != 'text':
                return text, ids, line
            text, ids = text + line['text'], ids + line['ids']

    def end(self):
        """Its exit code after its input has ended."""
        self.process.stdin.close()
        code = self.process.wait(LIMIT_S)
        self.process.stdout.close()
        return code
