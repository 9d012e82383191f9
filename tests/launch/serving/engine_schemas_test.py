#!/usr/bin/env python3
"""Random schemas through yamata engine, at a high temperature: each text that ends by itself is valid by the package jsonschema. The
argument is the program."""
import json
import os
import pathlib
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / 'grammar'))
import reference  # noqa: E402
from reference import jsonschema  # noqa: E402

MODEL = str(pathlib.Path(__file__).resolve().parents[3] / 'models/tales-target-q8_0.gguf')
SCHEMAS = 5000 if os.environ.get('YAMATA_THOROUGH') else 60
AT_ONCE = 50


class Engine:
    def __init__(self, program):
        self.process = subprocess.Popen([program, 'engine', '-m', MODEL, '-t', '1', '-c', '160'], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE)

    def send(self, **line):
        self.process.stdin.write(json.dumps(line).encode() + b'\n')
        self.process.stdin.flush()

    def answers(self, numbers):
        """{number: (text, last line)} of these requests."""
        texts, ends = dict.fromkeys(numbers, ''), {}
        while len(ends) < len(numbers):
            line = json.loads(self.process.stdout.readline())
            if line['is'] == 'text':
                texts[line['id']] += line['text']
            elif line.get('id') in texts and line['is'] != 'prompt':
                ends[line['id']] = line
        return {number: (texts[number], ends[number]) for number in numbers}


def wrong(schema, text, end):
    """What is wrong about an answer; nothing: ''."""
    if end['is'] == 'refused':
        return '' if 'no JSON value is valid' in end['message'] else end['message']
    if end['is'] != 'done':
        return end['message']
    if end['reason'] != 'stop':
        return ''  # it was cut
    try:
        valid = jsonschema.Draft202012Validator(schema).is_valid(json.loads(text))
    except ValueError as error:
        return f'no JSON: {error}: {text}'
    return '' if valid else f'not valid: {text}'


def main():
    engine, failures, ended = Engine(sys.argv[1]), 0, 0
    for begin in range(0, SCHEMAS, AT_ONCE):
        schemas = {seed: reference.Case(seed).schema() for seed in range(begin, min(begin + AT_ONCE, SCHEMAS))}
        for seed, schema in schemas.items():
            engine.send(do='submit', id=seed, prompt='A king', max_tokens=150, schema=schema,
                        sampling={'temperature': 1.5, 'seed': seed, 'top_k': 0, 'top_p': 1, 'min_p': 0})
        for seed, (text, end) in engine.answers(list(schemas)).items():
            ended += end.get('reason') == 'stop'
            if found := wrong(schemas[seed], text, end):
                failures += 1
                print(f'seed {seed}, schema {json.dumps(schemas[seed])}: {found}')
    engine.process.stdin.close()
    print(f'{ended} of {SCHEMAS} texts have ended by themselves')
    sys.exit(failures > 0 or engine.process.wait() != 0 or ended < SCHEMAS // 2)


if __name__ == '__main__':
    main()
