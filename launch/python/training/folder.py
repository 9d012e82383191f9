"""Writes the result of training: model.safetensors, config.json, and README.md, a model card with the measured figures."""
import json
import math
import os
import pathlib

import numpy
import torch

from common.files import part_of
from common.problem import Problem

from . import config_file, safetensors_file


def write(folder, head, card, halves, held_out):
    """Writes the folder: tensors in F16 (or F32), integers unchanged. held_out: seed, and share of the texts, for held_out_of."""
    tensors = {}
    for name, values in head.tensors().items():
        array = values.detach().cpu().numpy()
        if array.dtype.kind == 'f':
            with numpy.errstate(over='ignore'):
                array = array.astype(numpy.float16 if halves else numpy.float32)
            if not numpy.isfinite(array).all():
                raise Problem(f'{name} has values that are no numbers, or too large for {array.dtype}; lower --learning-rate', 2)
        tensors[name] = array
    safetensors_file.write(folder / 'model.safetensors', tensors, head.metadata() | held_out)
    whole(folder / 'config.json', json.dumps(head.config(), indent=2) + '\n')
    whole(folder / 'README.md', card)
    return sum(values.nbytes for values in tensors.values())


@torch.no_grad()
def read(folder, head):
    """Gives `head` the weights of a folder. Raises Problem (2) if they are those of another kind, model or size."""
    stored, _ = safetensors_file.read(folder / 'model.safetensors')
    own, config = head.tensors(), config_file.read(folder)
    for name in sorted(own.keys() | stored.keys()):
        if name not in own or name not in stored or stored[name].shape != tuple(own[name].shape):
            raise Problem(f'{folder}: {name} does not fit; --from needs a head of the same kind, model and size', 2)
    for name, value in head.config().items():
        if isinstance(value, int | float) and name in config and not same(config[name], value):
            raise Problem(f'{folder}/config.json: {name} is {config[name]!r}, but {value!r} for this model; --from needs a head of the '
                          'same kind, model and size', 2)
    for name, values in own.items():
        values.copy_(torch.from_numpy(stored[name].copy()))
    if 'd2t' in stored:
        head.draft_ids.copy_(own['d2t'] + torch.arange(len(own['d2t'])))


def same(read, value):
    """Whether a value of config.json is this number; conversions of a model may round it."""
    return isinstance(read, int | float) and math.isclose(read, value, rel_tol=1e-5)


def sizes(folder, kind):
    """By option, the sizes of the head in a folder, as far as its tensors are those of this kind."""
    stored, _ = safetensors_file.read(folder / 'model.safetensors')
    if kind == 'eagle3':
        found = {'draft_vocabulary': len(stored['lm_head.weight'])} if 'lm_head.weight' in stored else {}
        return found | {'layers': config_file.read(folder).get('eagle_aux_hidden_state_layer_ids')}
    if kind == 'medusa':
        heads = len({name.split('.')[0] for name in stored if name[:1].isdigit()})
        return {'heads': heads, 'shared_output': '0.1.weight' not in stored} if heads else {}
    blocks = len({name.split('.')[1] for name in stored if name.startswith('layers.')})
    return {'blocks': blocks} if blocks else {}


def held_out_of(folder):
    """(seed, share) with which the head in a folder was trained; None if its file does not say."""
    _, metadata = safetensors_file.read(folder / 'model.safetensors')
    try:
        return int(metadata['seed']), float(metadata['held_out'])
    except (KeyError, ValueError):
        return None


def whole(path, text):
    new = part_of(path)
    pathlib.Path(new).write_text(text)
    os.replace(new, path)


NAMES = {'medusa': 'Medusa heads', 'dgf': 'Dovetail draft head (DGF)', 'eagle': 'EAGLE head', 'eagle3': 'EAGLE-3 head'}


def card(head, trainer, facts):
    """The model card in Markdown: its use, its training data, its acceptance rate per depth."""
    best, recipe = trainer.best, trainer.recipe
    trained = sum(values.numel() for values in head.parameters())
    lines = [f'# {NAMES[head.kind]} for {head.target.name}', '',
             f'Guesses what `{facts["model"]}` writes. {trained / 1e6:.2f} million parameters. Made by',
             '', f'    {facts["command"]}', '', '## How often it is right', '',
             f'On {facts["held_rows"]} rows of {facts["held_texts"]} texts that {facts["unknown_to"]}, '
             + ('where the model wrote them itself.' if trainer.held_out.any_own
                else 'against the token that the model finds most likely.'), '',
             '| depth | guesses | right | right with all before |', '|---|---|---|---|']
    for depth, compared in enumerate(best.compared):
        lines.append(f'| {depth + 1} | {compared} | {best.share(depth):.3f} | {best.chain[depth] / max(compared, 1):.3f} |')
    lines += ['', f'A chain of {head.depths} guesses gives {best.tokens_per_pass():.2f} tokens per pass of the model; a tree gives more.',
              '', '## How it was trained', '',
              f'- {facts["rows"]} rows of {facts["texts"]} texts; {facts["held_texts"]} further texts held out',
              f'- {trainer.done} steps of at most {recipe.batch_rows} rows, learning rate {recipe.learning_rate:g}, warm-up '
              f'{recipe.warm_up}, '
              f'seed {recipe.seed}', f'- {trainer.seconds:.0f} s on {facts["machine"]}', '', '| step | loss |', '|---|---|',
              *(f'| {step} | {loss:.4f} |' for step, loss in thinned(trainer.losses)), '']
    return '\n'.join(lines)


def thinned(entries, most=12):
    """The last entry, and others at regular distances."""
    every = -(-len(entries) // most)
    return [entry for i, entry in enumerate(entries) if (len(entries) - 1 - i) % every == 0]
