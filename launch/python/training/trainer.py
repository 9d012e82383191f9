"""The training loop: warm-up, then linear decay to zero; regular evaluations of held-out acceptance; checkpoints for resuming."""
import dataclasses
import os
import pathlib
import sys
import time

import numpy
import torch

from common.files import part_of
from common.problem import Problem

from . import features
from .optimizer import Optimizer
from .rates import Rates

SAVE_EVERY_S = 60.0
VERSION = 5  # of checkpoints: raise it when their content, or what a training does with it, changes
CHANGEABLE = {'steps', 'warm_up', 'evaluate_every', 'patience'}  # settings with which a checkpoint may be continued to train for longer

NAMES = {'rows': 'number of rows in -f', 'batch_rows': 'batch'}  # of settings, where it is not that of a flag


@dataclasses.dataclass
class Recipe:
    """The settings that determine the result; a checkpoint with other settings is not resumed, except those in CHANGEABLE."""
    steps: int
    batch_rows: int
    learning_rate: float
    warm_up: int
    clip: float
    evaluate_every: int
    patience: int  # number of evaluations without improvement after which training stops
    seed: int
    bf16: bool     # compute the products of a step in bfloat16
    optimizer: str  # muon or adamw


class Progress:
    """Prints a line per evaluation on stderr; on a terminal, also a line that is overwritten."""

    def __init__(self, recipe, first):
        self.recipe, self.first, self.begin = recipe, first, time.monotonic()
        self.terminal = sys.stderr.isatty()

    def left(self, step):
        seconds = (time.monotonic() - self.begin) / max(step - self.first, 1) * (self.recipe.steps - step)
        return f'{seconds:.0f} s left' if seconds < 90 else f'{seconds / 60:.0f} min left'

    def step(self, step, loss):
        if self.terminal:
            print(f'\rstep {step}/{self.recipe.steps}: loss {loss:.4f}, {self.left(step)}\033[K', end='', file=sys.stderr, flush=True)

    def evaluated(self, step, loss, rates, best):
        print(f'{chr(13) if self.terminal else ""}step {step}/{self.recipe.steps}: loss {loss:.4f}, held out '
              f'{rates}{" (best)" if best else ""}, {self.left(step)}', file=sys.stderr, flush=True)


class Trainer:
    """Trains `head` on `texts`. The state is in a checkpoint file. All random numbers follow from the seed and the step, so a resumed
    training gives the same bits as an uninterrupted one."""

    def __init__(self, head, data, texts, held_out, recipe, checkpoint, settings):
        self.head, self.data, self.texts, self.held_out, self.recipe = head, data, texts, held_out, recipe
        self.checkpoint, self.settings = pathlib.Path(checkpoint), {**settings, **dataclasses.asdict(recipe)}
        self.device = next(head.parameters()).device
        self.optimizer = Optimizer(head, recipe.optimizer, recipe.bf16)
        self.done, self.seconds, self.losses, self.recent = 0, 0.0, [], []
        self.best, self.best_state, self.since_best = None, None, 0
        if self.checkpoint.exists():
            self.load()

    def load(self):
        try:
            state = torch.load(self.checkpoint, map_location=self.device)
            if state.get('version') != VERSION:
                age = 'a newer' if state.get('version', 0) > VERSION else 'an older'
                raise Problem(f'{self.checkpoint} is from {age} version; delete it to start again, or choose another -o', 2)
            other = [key for key in self.settings if key not in CHANGEABLE and state['settings'].get(key) != self.settings[key]]
            if other:
                raise Problem(f'{self.checkpoint} was begun with another {", ".join(sorted({NAMES.get(key, key) for key in other}))}; use '
                              'the same, choose another -o, or delete it')
            self.head.load_state_dict(state['head'])
            self.optimizer.load_state_dict(state['optimizer'])
            self.done, self.seconds, self.losses, self.recent = (state[key] for key in ('done', 'seconds', 'losses', 'recent'))
            self.best = state['best'] and Rates(**state['best'])
            longer = self.recipe.steps > state['settings']['steps']
            self.best_state, self.since_best = state['best_state'], 0 if longer else state['since_best']
        except Problem:
            raise
        except Exception as error:  # torch does not define the exception for a damaged file
            raise Problem(f'{self.checkpoint} cannot be read ({type(error).__name__}); delete it to start again, or choose another '
                          '-o', 2) from None

    def save(self):
        # Only tensors, numbers and strings: newer versions of PyTorch refuse other objects.
        state = {'version': VERSION, 'settings': self.settings, 'head': self.head.state_dict(), 'optimizer': self.optimizer.state_dict(),
                 'done': self.done, 'seconds': self.seconds, 'losses': self.losses, 'recent': self.recent,
                 'best': self.best and dataclasses.asdict(self.best), 'best_state': self.best_state, 'since_best': self.since_best}
        new = pathlib.Path(part_of(self.checkpoint))
        with open(new, 'wb') as file:
            torch.save(state, file)
            file.flush()
            os.fsync(file.fileno())
        new.replace(self.checkpoint)

    def schedule(self):
        """The batches from step `done` on, epoch by epoch."""
        epoch, first = 0, 0
        while True:
            made = features.batches(self.texts, self.recipe.batch_rows, numpy.random.default_rng([self.recipe.seed, epoch]))
            if first + len(made) > self.done:
                yield from made[self.done - first:]
            epoch, first = epoch + 1, first + len(made)

    def learning_rate(self, step):
        rising = (step + 1) / self.recipe.warm_up if step < self.recipe.warm_up else 1.0
        return self.recipe.learning_rate * rising * (1 - step / self.recipe.steps)

    def one_step(self, texts):
        random = torch.Generator().manual_seed(self.recipe.seed * 1_000_003 + self.done)
        batch = self.data.batch(texts).to(self.device)
        self.optimizer.zero_grad()
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.recipe.bf16):
            loss = self.head.loss(batch, random)
        if not torch.isfinite(loss):
            raise Problem(f'the loss of step {self.done + 1} is not a finite number; lower --learning-rate, or check the features and '
                          '--from', 2)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.head.parameters(), self.recipe.clip)
        self.optimizer.step(self.learning_rate(self.done))
        return loss.item()

    def evaluate(self):
        """True if this is the best result so far; its weights are kept."""
        rates = self.held_out.rates(self.head)
        better = self.best is None or rates.tokens_per_pass() > self.best.tokens_per_pass()
        if better:
            self.best, self.since_best = rates, 0
            self.best_state = {name: values.detach().cpu().clone() for name, values in self.head.state_dict().items()}
        else:
            self.since_best += 1
        return rates, better

    @property
    def finished(self):
        return self.done >= self.recipe.steps or self.since_best >= self.recipe.patience

    def run(self, until=None, keep_going=lambda: True, on_best=lambda: None):
        """Trains up to step `until` (default: all), until there is no more improvement, or until keep_going is false. Saves; if training
        has finished, also loads the best weights into the head. on_best is called whenever the head has the best weights so far. True if it
        has finished."""
        if self.settings.get('from') and not self.best:  # the result is never worse than the beginning
            print(f'step 0/{self.recipe.steps}: held out {self.evaluate()[0]} ({self.settings["from"]})', file=sys.stderr, flush=True)
        begin, before, saved = time.monotonic(), self.seconds, time.monotonic()
        progress, schedule = Progress(self.recipe, self.done), self.schedule()
        while not self.finished and (until is None or self.done < until) and keep_going():
            self.recent.append(self.one_step(next(schedule)))
            self.done += 1
            self.seconds = before + time.monotonic() - begin
            progress.step(self.done, self.recent[-1])
            if self.done % self.recipe.evaluate_every == 0 or self.done == self.recipe.steps:
                loss, self.recent = sum(self.recent) / len(self.recent), []
                rates, better = self.evaluate()
                self.losses.append((self.done, loss))
                progress.evaluated(self.done, loss, rates, better)
                if better:
                    on_best()
            if time.monotonic() - saved > SAVE_EVERY_S:
                self.save()
                saved = time.monotonic()
        self.save()
        if self.finished:
            self.head.load_state_dict(self.best_state)
        return self.finished
