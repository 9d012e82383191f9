"""The main part of launch/train-heads, after its flags are read and PyTorch is available."""
import pathlib
import platform
import re
import shlex
import signal
import sys
import time

import torch

from common.problem import Problem
from measuring.summary import counted

from . import features, folder, rates, target, trainer, whole_target
from .device import device_of, enough_memory
from .dgf import Dgf
from .eagle import Eagle
from .eagle3 import Eagle3
from .medusa import Medusa
from .options import SIZES
from .out_folder import CHECKPOINT

FILES = {'model', 'features', 'out', 'type', 'minutes', 'threads', 'device', 'kind'}  # flags that do not influence the result


def settle_sizes(options):
    """Sizes that no flag gives are those of the head with which training begins, else the default ones."""
    beginning = getattr(options, 'from')
    found = folder.sizes(pathlib.Path(beginning), options.kind) if beginning else {}
    for name, default in SIZES[options.kind].items():
        given, there = getattr(options, name), found.get(name)
        if given is None:
            setattr(options, name, default if there is None else there)
        elif there is not None and given != there:
            raise Problem(f'--{name.replace("_", "-")} does not fit the head in {beginning}; leave it out, or begin without --from')


def make_head(options, model, data, texts):
    torch.manual_seed(options.seed)
    if options.kind == 'medusa':
        head = Medusa(model, options)
    elif options.kind == 'dgf':
        head = Dgf(model, options)
    elif options.kind == 'eagle':
        head = Eagle(model, options)
    else:
        head = Eagle3(model, options, data.counts(texts, model.vocabulary))
    if beginning := getattr(options, 'from'):
        folder.read(pathlib.Path(beginning), head)
    return head


def layers_needed(options, model):
    if options.kind != 'eagle3':
        return ['last']
    read = options.layers or model.eagle3_layers()
    if read[-1] >= model.layers:
        raise Problem(f'--layers: the model has no layer {read[-1]}; its layers are 0 to {model.layers - 1}')
    return [*map(str, read), 'last']


class Pause:
    """Whether to continue: False after Ctrl-C or SIGTERM, and after --minutes."""

    def __init__(self, minutes):
        self.asked = False
        self.end = time.monotonic() + 60 * minutes if minutes is not None else None
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self.ask)

    def ask(self, *_):
        self.asked = True

    def __call__(self):
        return not self.asked and (self.end is None or time.monotonic() < self.end)


def machine_name():
    cpu = re.search(r'model name\s*: (.*)', pathlib.Path('/proc/cpuinfo').read_text()) if pathlib.Path('/proc/cpuinfo').exists() else None
    return f'{cpu[1] if cpu else platform.machine()}, {counted(torch.get_num_threads(), "thread")}'


def read_texts(options, model):
    """(texts to train on, held-out texts): the same if a share is held out."""
    layers = layers_needed(options, model)
    data = features.Features(options.features, layers, model.dim, model.vocabulary)
    if not isinstance(options.held_out, str):
        return data, data
    return data, features.Features([options.held_out], layers, model.dim, model.vocabulary, data)


def warn_of_other_writers(path, name, writers):
    for writer in sorted(writers.keys() - {name}) if name else ():
        print(f"train-heads: warning: {writers[writer]} was written by the model '{writer}', not by '{name}' ({path}); a head learns best "
              "from its model's own texts", file=sys.stderr)


def unknown_to(options):
    """What the model card says of the held-out texts: who does not know them."""
    beginning = getattr(options, 'from')
    if not beginning:
        return 'it was not trained on'
    before, share = folder.held_out_of(pathlib.Path(beginning)), options.held_out
    if isinstance(share, str) or (before and before[0] == options.seed and share <= before[1]):
        return 'it was not trained on'
    if before:
        print(f'train-heads: warning: the head in {beginning} may know the texts that are held out now; give --seed {before[0]} and '
              f'--held-out {before[1]:g}, as for that head', file=sys.stderr)
    return f'this training did not use; the head with which it began, {beginning}, may know them'


def prepare(options):
    """(trainer, facts for the model card)."""
    device = device_of(options.device)
    settle_sizes(options)
    file = target.ModelFile(options.model)
    model = target.read(file).to(device)
    data, measured = read_texts(options, model)
    training, held = data.split(options.held_out, options.seed) if measured is data else (data.texts, measured.texts)
    warn_of_other_writers(options.model, file.name, {**data.writers, **measured.writers})
    pieces, held_pieces = training, held
    if data.stored:
        pieces, held_pieces = features.cut(training, options.context), features.cut(held, options.context)
    else:
        data.whole = measured.whole = whole_target.WholeTarget(file, model)
    head = make_head(options, model, data, training).to(device)
    kept = features.Batches(measured, features.batches(held_pieces, options.batch), device)
    if data.stored:
        kept = list(kept)
    recipe = trainer.Recipe(steps=options.steps, batch_rows=options.batch, learning_rate=options.learning_rate, warm_up=options.warm_up,
                            clip=options.clip, evaluate_every=options.evaluate_every, patience=options.patience, seed=options.seed,
                            bf16=options.bf16, optimizer=options.optimizer)
    settings = {key: value for key, value in vars(options).items()
                if key not in FILES} | {'kind': options.kind, 'rows': data.rows(data.texts)}
    loop = trainer.Trainer(head, data, pieces, rates.HeldOut(kept, model), recipe, pathlib.Path(options.out) / CHECKPOINT, settings)
    facts = {'model': pathlib.Path(options.model).name, 'rows': data.rows(training), 'texts': len(training),
             'held_rows': measured.rows(held), 'held_texts': len(held), 'unknown_to': unknown_to(options),
             'machine': machine_name() if device.type == 'cpu' else torch.cuda.get_device_name(device),
             'command': 'launch/train-heads ' + shlex.join(sys.argv[1:])}
    return loop, facts


def train(options):
    """Trains; returns the exit code: 0 trained, 130 paused."""
    with enough_memory('give a smaller --batch'):
        return train_in_memory(options)


def train_in_memory(options):
    if options.threads:
        torch.set_num_threads(options.threads)
    out = pathlib.Path(options.out)
    loop, facts = prepare(options)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Problem(f'{out} cannot be made ({error.strerror}); choose another folder with -o') from None
    print(f'training on {facts["rows"]} rows of {facts["texts"]} texts, measuring on {facts["held_rows"]}'
          + (f'; going on at step {loop.done}' if loop.done else '')
          + (', after which nothing is left to do' if loop.finished else ''), file=sys.stderr, flush=True)

    held_out = {} if isinstance(options.held_out, str) else {'seed': options.seed, 'held_out': options.held_out}

    def write():
        return folder.write(out, loop.head, folder.card(loop.head, loop, facts), options.type == 'f16', held_out)

    try:
        if not loop.checkpoint.exists():
            loop.save()  # before all other files: it says that they are of train-heads
        if not loop.run(keep_going=Pause(options.minutes), on_best=write):
            print(f'train-heads: paused at step {loop.done} of {options.steps}; the same command goes on', file=sys.stderr)
            return 130
        size = write()
    except OSError as error:
        raise Problem(f'{out} cannot be written ({error.strerror}); correct that, and run the same command to continue') from None
    print(f'{out}: model.safetensors ({size / 1e6:.1f} MB), config.json, README.md; held out {loop.best}')
    return 0
