"""The flags of launch/write-texts, and what can be checked before PyTorch is loaded."""
import argparse
import pathlib

from common import places
from common.files import part_of, real_place, refuse_foreign, safetensors_header
from common.flags import Parser, number
from common.problem import Problem, refuse_overwriting

from .shards import shards_of

REMEDY = 'choose another file with -o'


def prompt_format(text):
    if text.count('{}') != 1:
        raise argparse.ArgumentTypeError(f"'{text}' needs one {{}}, which stands for the question")
    return text.replace('\\n', '\n')


def holds_texts(path):
    """Whether launch/write-texts wrote this file. Files of yamata features also have hidden states, which take long to write."""
    names = (safetensors_header(path) or {}).keys()
    return {'ids', 'texts', 'prompts'} <= names and not any(name.startswith('hidden.') for name in names)


def check(options):
    """Raises Problem if the program or the model is missing (2), or if the output cannot be written or would replace another file."""
    if not pathlib.Path(options.model).exists():
        raise Problem(f'-m: {options.model} does not exist; name the GGUF file of the model', 2)
    out = pathlib.Path(options.out)
    if not out.parent.is_dir():
        raise Problem(f'{out.parent} is no folder; make it, or {REMEDY}')
    options.out = real_place(out, REMEDY)
    refuse_overwriting([options.model], [options.out, part_of(options.out)], REMEDY)
    refuse_foreign(out, holds_texts, 'a file of texts', REMEDY)
    if len(shards := shards_of(out)) > 1:
        raise Problem(f'{shards[1]} would continue the texts of {out}; delete it, or {REMEDY}')
    if not places.program().exists():
        raise Problem(f'{places.program()}, which tokenizes, is missing; build it (launch/demo does), or set YAMATA_BUILD', 2)


def read(arguments, description):
    parser = Parser(description)
    parser.add_argument('-m', '--model', metavar='FILE.gguf', required=True, help='the model')
    parser.add_argument('-o', '--out', metavar='FILE', required=True,
                        help='the safetensors file to write: ids, texts and prompts as yamata features writes them, without hidden states')
    parser.add_argument('--texts', type=number(int, 2), required=True, metavar='N', help='number of texts')
    parser.add_argument('--prompt-format', type=prompt_format, default=None, metavar='TEXT',
                        help='the chat template, in which {} stands for the question; \\n is a new line. Without it, the first '
                             '--question-tokens tokens are sampled, and continued')
    parser.add_argument('--question-tokens', type=number(int, 1), default=96, metavar='N', help='maximum tokens of a question (96)')
    parser.add_argument('--answer-tokens', type=number(int, 1), default=192, metavar='N', help='maximum tokens of an answer (192)')
    parser.add_argument('--temperature', type=number(float, 0), default=0.0, metavar='X',
                        help='of the answers; 0 is greedy (0). Questions are sampled at 1')
    parser.add_argument('--batch', type=number(int, 1), default=None, metavar='N',
                        help='texts that are generated at once (cpu 32; cuda as many as fit, at most 4096)')
    parser.add_argument('--seed', type=number(int, 0, 2**32 - 1), default=1, metavar='N', help='seed of the questions (1)')
    parser.add_argument('--threads', type=number(int, 1), default=None, metavar='N', help='number of threads (default: PyTorch chooses)')
    parser.add_argument('--device', default='cpu', help='PyTorch device: cpu or cuda (cpu)')
    return parser.parse_args(arguments)
