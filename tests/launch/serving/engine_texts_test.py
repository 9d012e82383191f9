#!/usr/bin/env python3
"""yamata engine over pipes, alone and on three ranks: its texts are those of yamata run, whatever was served before. The argument is the
program."""
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
import engine_process  # noqa: E402
from engine_process import FLAGS, LIMIT_S, MODEL  # noqa: E402

PROGRAM = sys.argv.pop(1) if len(sys.argv) > 1 else 'build/yamata'
ROUNDS = 100 if os.environ.get('YAMATA_THOROUGH') else 6
BEGINNINGS = ['Once upon a time there was a king who had three sons', 'The youngest of them went into the wood',
              'Once upon a time there was a king and his daughter']


def Engine(ranks, *flags):
    return engine_process.Engine(PROGRAM, ranks, *flags)


def process_of(launcher, rank):
    """The process of a rank below this mpirun: not its guard, which has a child."""
    found = {}
    for process in (int(name) for name in os.listdir('/proc') if name.isdigit()):
        try:
            own = pathlib.Path(f'/proc/{process}/environ').read_bytes().split(b'\0')
            parent = int(pathlib.Path(f'/proc/{process}/stat').read_text().rsplit(')', 1)[1].split()[1])
        except OSError:
            continue
        if f'OMPI_COMM_WORLD_RANK={rank}'.encode() in own:
            found[process] = parent
    above = {process for process, parent in found.items() if parent == launcher}
    return next(process for process, parent in found.items() if parent in above)


def run(prompt, most, sampling, stops):
    """(text, ids) of yamata run."""
    with tempfile.TemporaryDirectory() as folder:
        names = {'temperature': '--temp', 'seed': '--seed', 'repeat_penalty': '--repeat-penalty', 'repeat_last_n': '--repeat-last-n',
                 'top_k': '--top-k', 'top_p': '--top-p', 'min_p': '--min-p'}
        flags = [word for name, value in sampling.items() for word in (names[name], str(value))]
        flags += [word for stop in stops for word in ('--stop', stop)]
        subprocess.run([PROGRAM, 'run', *FLAGS, '-p', prompt, '-n', str(most), *flags, '--json', f'{folder}/it'], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=LIMIT_S)
        result = json.loads(pathlib.Path(folder, 'it').read_text())
    return result['text'], result['token_ids']


class EngineTest(unittest.TestCase):
    def test_a_layout_for_more_texts_than_slots_is_refused(self):
        refused = subprocess.run([PROGRAM, 'engine', *FLAGS, '--slots', '2', '--requests', '3'], capture_output=True, timeout=LIMIT_S)
        self.assertEqual(refused.returncode, 1)
        self.assertIn(b'--requests must be between 1 and --slots', refused.stderr)

    def compare(self, ranks, *flags):
        draw, engine = random.Random(4), Engine(ranks, *flags)
        self.assertEqual(len(engine.ready['ranks']), ranks)
        self.assertRegex(engine.ready['layout'], r'^layers 0-\d on ranks? 0 .*; guesses: .*repeated text$')
        cached = 0
        for number in range(ROUNDS):
            engine.send(do='submit', id=f'{number}, cancelled', prompt=draw.choice(BEGINNINGS))
            engine.send(do='cancel', id=f'{number}, cancelled')
            self.assertEqual(engine.answer(f'{number}, cancelled')[2]['reason'], 'cancelled')
            prompt, most = draw.choice(BEGINNINGS) + draw.choice(['', ' and', '. Then']), draw.randint(4, 30)
            sampling = {'temperature': draw.choice([0, 0.9, 1.5]), 'seed': draw.randint(0, 99), 'repeat_penalty': draw.choice([1, 1.2])}
            others = {'top_k': [0, 3, 50], 'top_p': [0.5, 1], 'min_p': [0, 0.1], 'repeat_last_n': [4, 100]}
            sampling |= {name: draw.choice(values) for name, values in others.items() if draw.random() < 0.3}
            stops = draw.choice([[], ['the', ' of them'], [', and ']])
            engine.send(do='submit', id=number, prompt=prompt, max_tokens=most, sampling=sampling, stop=stops)
            text, ids, last = engine.answer(number)
            self.assertEqual((text, ids), run(prompt, most, sampling, stops), (prompt, sampling, stops))
            cached += last['usage']['cached_tokens']
        self.assertGreater(cached, 20)
        engine.send(do='submit', id='open', prompt='Once')
        self.assertEqual(engine.end(), 0)

    def test_alone(self):
        self.compare(1)

    def test_on_three_ranks(self):
        self.compare(3)

    def test_with_a_drafter(self):
        self.compare(3, '-md', MODEL.replace('target-q8_0', 'draft-q8_0'))

    def test_in_a_group(self):
        self.compare(2, '--layer-split', '0.5+0.5')

    def test_a_lost_rank_ends_the_job(self):
        engine = Engine(3)
        engine.send(do='submit', id=1, prompt='Once upon', sampling={'ignore_eos': True})
        engine.wait(lambda line: line['is'] == 'text')
        os.kill(process_of(engine.process.pid, 2), signal.SIGKILL)
        last = engine.wait(lambda line: line['is'] in ('done', 'lost'))
        self.assertIn(last.get('reason', 'lost'), ('lost', 'cancelled'))  # mpirun closes the input first
        self.assertEqual(engine.end(), 3)

    def test_stop_lets_a_text_finish(self):
        engine = Engine(1)
        engine.send(do='submit', id=1, prompt='Once upon', max_tokens=20)
        engine.send(do='stop')
        self.assertEqual(len(engine.answer(1)[1]), 20)
        self.assertEqual(engine.process.wait(LIMIT_S), 0)
        engine.end()

    def test_a_line_has_a_few_tokens_also_if_all_guesses_are_right(self):
        engine, tokens = Engine(1), 0
        for number in range(2):
            engine.send(do='submit', id=number, prompt='Once upon', max_tokens=60, sampling={'temperature': 0, 'ignore_eos': True})
        while tokens < 120:
            ids = engine.wait(lambda line: line['is'] == 'text')['ids']
            self.assertLessEqual(len(ids), 8)
            tokens += len(ids)
        self.assertEqual(engine.end(), 0)

    def test_a_long_line_passes(self):
        engine = Engine(1)
        text = 'ab' * (8 << 20)
        engine.send(do='submit', id=1, prompt='x', stop=[text])
        self.assertEqual(engine.answer(1)[2]['param'], 'stop')
        engine.send(do='detokenize', id=2, ids=[17] * (1 << 21))
        self.assertGreater(len(engine.wait(lambda line: line.get('id') == 2)['text']), 1 << 20)
        self.assertEqual(engine.end(), 0)


if __name__ == '__main__':
    unittest.main()
