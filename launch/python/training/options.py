"""The flags of launch/train-heads."""
import argparse
import pathlib

from common.flags import Parser, number
from common.problem import Problem

from . import config_file, out_folder

LEARNING_RATES = {'medusa': {'muon': 1e-3, 'adamw': 1e-3}, **dict.fromkeys(('dgf', 'eagle', 'eagle3'), {'muon': 2e-3, 'adamw': 5e-4})}
# By kind, the options that determine the size of a head, with their default values.
SIZES = {'medusa': {'heads': 4, 'shared_output': False}, 'dgf': {'blocks': 2}, 'eagle': {'blocks': 1},
         'eagle3': {'draft_vocabulary': 8192, 'layers': None}}
LEARNING_RATES_IN_WORDS = 'medusa 1e-3; the others 2e-3, and 5e-4 with adamw; with --from 0.3 of it'
CONTINUED = 0.3  # of these, for a head that is trained already: at a higher rate it first loses much of what it learned


def held_out(text):
    try:
        share = float(text)
    except ValueError:
        return text
    if share == 0:
        raise argparse.ArgumentTypeError('0 leaves no text for the evaluation; give a share such as 0.1')
    return number(float, 0, 0.9)(text) if share == share else text


def layers(text):
    """Ascending, as heads read them."""
    read = sorted(number(int, 0)(word) for word in text.split(','))
    if len(set(read)) < len(read):
        raise argparse.ArgumentTypeError(f'{text} names a layer twice')
    return read


layers.__name__ = 'list of layers'


def add_common(parser):
    files = parser.add_argument_group('files')
    files.add_argument('-m', '--model', metavar='FILE.gguf', required=True, help='the model for which heads are trained')
    files.add_argument('-f', '--features', metavar='FILE', required=True, action='append',
                       help='a file of yamata features, or one of launch/write-texts, for which hidden states are computed for each '
                            'batch; numbered further files are found automatically; repeatable')
    files.add_argument('-o', '--out', metavar='FOLDER', required=True,
                       help='output folder; an interrupted training continues from its checkpoint; files that no training wrote '
                            'there are not replaced')
    files.add_argument('--type', choices=('f16', 'f32'), default='f16', help='type of the written weights (f16)')
    files.add_argument('--from', metavar='FOLDER', default=None,
                       help='begin with the weights and the size of this head, to train it on more text')
    loop = parser.add_argument_group('training')
    loop.add_argument('--steps', type=number(int, 1), default=2000, help='maximum number of training steps (2000)')
    loop.add_argument('--batch', type=number(int, 8), default=2048, metavar='ROWS', help='tokens per step (2048)')
    loop.add_argument('--context', type=number(int, 8), default=256, metavar='N',
                      help='texts with hidden states are cut into chunks of N tokens (256)')
    loop.add_argument('--optimizer', choices=('muon', 'adamw'), default='muon',
                      help='muon: Muon for the matrices inside a head, AdamW for the rest; adamw: AdamW for all (muon)')
    loop.add_argument('--learning-rate', type=number(float, 0), default=None, metavar='X',
                      help=f'peak learning rate of AdamW; six times as much for Muon ({LEARNING_RATES_IN_WORDS})')
    loop.add_argument('--warm-up', type=number(int, 0), default=None, metavar='STEPS',
                      help='steps until the peak learning rate (a tenth of --steps, at most 2000)')
    loop.add_argument('--clip', type=number(float, 0), default=0.5, metavar='X', help='maximum gradient norm (0.5)')
    loop.add_argument('--held-out', type=held_out, default=0.1, metavar='SHARE|FILE',
                      help='texts for evaluation: a share of the texts (0.1), or a file like those of -f with other texts')
    loop.add_argument('--evaluate-every', type=number(int, 1), default=None, metavar='STEPS',
                      help='steps between evaluations (a twentieth of --steps)')
    loop.add_argument('--patience', type=number(int, 1), default=6, metavar='N', help='stop after N evaluations without improvement (6)')
    loop.add_argument('--seed', type=number(int, 0, 2**32 - 1), default=1, metavar='N',
                      help='seed of initial weights, of the order of the texts and of the choice of held-out texts (1)')
    loop.add_argument('--minutes', type=number(float, 0), default=None, metavar='X',
                      help='pause after X minutes; the same command continues')
    machine = parser.add_argument_group('machine')
    machine.add_argument('--threads', type=number(int, 1), default=None, help='number of threads (default: PyTorch chooses)')
    machine.add_argument('--device', default='cpu', help='PyTorch device: cpu or cuda (cpu)')
    machine.add_argument('--bf16', action='store_true', help='matrix products in bfloat16: faster if the CPU or GPU supports it')


HEAD_FOLDER = 'name the folder of a head, which has model.safetensors and config.json'


def check_files(options):
    """Before anything is installed or loaded. Raises Problem (2) naming the first file that does not exist, Problem (1) if training
    would replace files that it must not."""
    features = 'name a file that yamata features or launch/write-texts wrote'
    files = [('-m', options.model, 'name the GGUF file of the model'), *(('-f', path, features) for path in options.features),
             ('--from', getattr(options, 'from'), HEAD_FOLDER),
             ('--held-out', options.held_out if isinstance(options.held_out, str) else None, f'{features}, or a share such as 0.1')]
    for flag, path, remedy in files:
        if path == '':
            raise Problem(f'{flag} is empty; {remedy}')
        if path is not None and not pathlib.Path(path).exists():
            raise Problem(f'{flag}: {path} does not exist; {remedy}', 2)
    if beginning := getattr(options, 'from'):
        if not pathlib.Path(beginning).is_dir():
            raise Problem(f'--from: {beginning} is no folder; {HEAD_FOLDER}', 2)
        config_file.require_files(pathlib.Path(beginning), ('model.safetensors', 'config.json'), HEAD_FOLDER)
    if options.out == '':
        raise Problem('-o is empty; name a folder')
    out_folder.check(options)


def read(arguments, description):
    parser = Parser(description)
    kinds = parser.add_subparsers(dest='kind', required=True, metavar='medusa|dgf|eagle|eagle3', parser_class=Parser)
    medusa = kinds.add_parser('medusa', help='heads that each guess one token, one position further ahead than the head before, from the '
                                             'last hidden state')
    medusa.add_argument('--heads', type=number(int, 1, 16), default=None, help='how many (4)')
    medusa.add_argument('--shared-output', action='store_true', default=None,
                        help="use the model's output matrix instead of one per head: much smaller, a little worse")
    dgf = kinds.add_parser('dgf', help="Dovetail's head: decoder layers that guess the next hidden state")
    eagle = kinds.add_parser('eagle', help="EAGLE's head: likewise, but a matrix in place of the gate combines token and hidden state")
    for kind in (dgf, eagle):
        kind.add_argument('--blocks', type=number(int, 1, 16), default=None, help=f'decoder layers ({2 if kind is dgf else 1})')
        kind.add_argument('--noise', type=number(float, 0), default=0.2, metavar='X',
                          help='uniform noise on the features, multiplied by 512/tokens (0.2)')
        kind.add_argument('--cross-entropy', type=number(float, 0), default=0.1, metavar='X',
                          help='weight of the token loss relative to the feature loss (0.1)')
    eagle3 = kinds.add_parser('eagle3', help='one decoder layer that reads three layers of the model, trained over its own outputs')
    eagle3.add_argument('--unroll', type=number(int, 1, 16), default=3, metavar='N', help='training steps on its own outputs (3)')
    eagle3.add_argument('--draft-vocabulary', type=number(int, 16), default=None, metavar='N',
                        help='number of most frequent tokens that it can guess (8192)')
    eagle3.add_argument('--layers', type=layers, default=None, metavar='A,B,C',
                        help='layers whose inputs are read (of L layers: 2, L/2, L-3; below 7 layers the middle one and those beside it, '
                             'below 3 all)')
    eagle3.add_argument('--start', choices=('layer', 'random'), default='layer',
                        help="initial weights: layer: the model's last layer, which is better after the same number of steps; random "
                             "(layer)")
    eagle3.add_argument('--freeze-output', action='store_true', help="do not train the rows of the model's output matrix: faster steps")
    for chained in (dgf, eagle, eagle3):
        chained.add_argument('--depths', type=number(int, 1, 16), default=5, metavar='N', help='maximum depth that is measured (5)')
    for kind in (medusa, dgf, eagle, eagle3):
        add_common(kind)
    options, unknown = parser.parse_known_args(arguments)
    if unknown:
        kinds.choices[options.kind].error(f'unrecognized arguments: {" ".join(unknown)}')
    if options.learning_rate is None:
        options.learning_rate = LEARNING_RATES[options.kind][options.optimizer] * (CONTINUED if getattr(options, 'from') else 1)
    if options.warm_up is None:
        options.warm_up = min(2000, options.steps // 10)
    if options.evaluate_every is None:
        options.evaluate_every = max(1, options.steps // 20)
    return options
