"""Reads the files of yamata features: texts, each with a row of hidden states per token; divides them into batches. The files of
launch/write-texts have no hidden states: the model computes those of each batch."""
import dataclasses
import hashlib

import numpy
import torch

from common.problem import Problem

from . import safetensors_file
from .shards import shards_of


@dataclasses.dataclass
class Batch:
    """Several texts, padded at their ends. Row i has token i, and the hidden states after the model has read it."""
    ids: torch.Tensor      # [texts, rows] int64
    lengths: torch.Tensor  # [texts]
    prompts: torch.Tensor  # [texts]: number of given rows; the model generated the others
    hidden: dict           # layer name -> [texts, rows, dim] float32

    def known(self, depth):
        """[texts, rows]: whether the text has a token with which the row's guess at this depth can be compared. Depth 0: the token two
        ahead."""
        rows = torch.arange(self.ids.shape[1], device=self.ids.device)
        return rows + 2 + depth < self.lengths[:, None]

    def own(self, depth):
        """Likewise, but only rows at which the model had begun to generate: there, guesses would be requested."""
        rows = torch.arange(self.ids.shape[1], device=self.ids.device)
        return self.known(depth) & (rows + 2 > self.prompts[:, None])

    def trained(self, depth):
        """Likewise, the rows that a loss covers: the own ones if the batch has any, else all known ones."""
        return self.own(depth) if self.own(0).any() else self.known(depth)

    def ahead(self, values, steps):
        """values [texts, rows, ...], shifted by `steps` rows to the front; the last rows become zeros."""
        moved = torch.zeros_like(values)
        moved[:, :max(values.shape[1] - steps, 0)] = values[:, steps:]
        return moved

    def to(self, device):
        return Batch(self.ids.to(device), self.lengths.to(device), self.prompts.to(device),
                     {name: rows.to(device) for name, rows in self.hidden.items()})


class Features:
    """All texts of some files. `layers` must be in the files, or no layer in any of them; then `whole` has to be set to a WholeTarget,
    which computes the hidden states. `others`: Features with files of the same kind. Raises Problem (2) naming the first file that is
    unsuitable."""

    def __init__(self, paths, layers, dim, vocabulary, others=None):
        self.layers, self.dim, self.whole = layers, dim, None
        self.files, self.writers = [], {}  # writers: for each model that a file names as its writer, the file
        self.texts = []  # (file, first row, last row + 1, rows of the prompt)
        self.first, self.stored = (others.first, others.stored) if others else (None, None)  # the first path; whether it has hidden states
        for path in (shard for path in paths for shard in shards_of(path)):
            self.add(path, vocabulary)
        if not self.texts:
            raise Problem(f'{paths[0]} has no text of three tokens or more; write features of a longer one', 2)

    def add(self, path, vocabulary):
        tensors, metadata = safetensors_file.read(path)
        stored = any(name.startswith('hidden.') for name in tensors)
        if self.first is None:
            self.first, self.stored = path, stored
        if stored != self.stored:
            have, lack = (path, self.first) if stored else (self.first, path)
            raise Problem(f'{have} has hidden states and {lack} has none; give files of one kind', 2)
        needed = ['ids', 'texts', *(f'hidden.{layer}' for layer in self.layers if stored)]
        for name in needed:
            if name not in tensors:
                raise Problem(f'{path} has no {name}; write it again with yamata features --layers {",".join(self.layers)}', 2)
        ids, bounds = tensors['ids'], tensors['texts']
        for name in needed[2:]:
            if tensors[name].shape != (len(ids), self.dim):
                raise Problem(f'{path}: {name} is {list(tensors[name].shape)}, not [{len(ids)}, {self.dim}]; these are features of another '
                              'model', 2)
        if len(ids) and not 0 <= ids.min() <= ids.max() < vocabulary:
            raise Problem(f'{path}: its token ids go beyond the vocabulary of {vocabulary}; these are features of another model', 2)
        if len(bounds) < 1 or bounds[0] != 0 or bounds[-1] != len(ids) or (numpy.diff(bounds) < 0).any():
            raise Problem(f'{path}: its texts do not cover its rows; write it again', 2)
        prompts = tensors.get('prompts', numpy.diff(bounds))  # if missing: as if all of it were given
        if prompts.shape != (len(bounds) - 1,):
            raise Problem(f'{path}: prompts has {prompts.size} entries for {len(bounds) - 1} texts; write it again', 2)
        self.files.append(tensors)
        if 'model' in metadata:
            self.writers[metadata['model']] = path
        for first, end, prompt in zip(bounds[:-1].tolist(), bounds[1:].tolist(), prompts.tolist()):
            if end - first >= 3:
                self.texts.append((len(self.files) - 1, first, end, prompt))

    def rows(self, texts):
        return sum(end - first for _, first, end, _ in texts)

    def split(self, share, seed):
        """(texts to train on, held-out texts): about that share, at least one text on each side. Which side a text is on follows from its
        tokens and the seed: equal texts are on one side, and a text that is held out stays so when others are added."""
        places = [self.place(text, seed) for text in self.texts]
        first, last = min(places), max(places)
        if first == last:
            raise Problem('there is only one text, so none can be held out; write features of more texts (lines)', 2)
        held = [place == first or (place < share and place != last) for place in places]
        return ([text for text, out in zip(self.texts, held) if not out], [text for text, out in zip(self.texts, held) if out])

    def place(self, text, seed):
        """A number from 0 up to 1, evenly distributed over different texts."""
        file, first, end, _ = text
        ids = self.files[file]['ids'][first:end].astype('<i4').tobytes()
        return int.from_bytes(hashlib.blake2b(ids, digest_size=6, salt=seed.to_bytes(16, 'little')).digest(), 'little') / 2**48

    def counts(self, texts, vocabulary):
        """How often each token occurs, [vocabulary]: only in what the model generated, if it generated anything."""
        counts = numpy.zeros((2, vocabulary), numpy.int64)
        for file, first, end, prompt in texts:
            own = min(first + prompt, end)
            for count, begin in zip(counts, (first, own)):
                count += numpy.bincount(self.files[file]['ids'][begin:end], minlength=vocabulary)
        return counts[1] if counts[1].any() else counts[0]

    def batch(self, texts):
        longest = max(end - first for _, first, end, _ in texts)
        ids = torch.zeros(len(texts), longest, dtype=torch.int64)
        for i, (file, first, end, _) in enumerate(texts):
            ids[i, :end - first] = torch.from_numpy(self.files[file]['ids'][first:end].astype(numpy.int64))
        hidden = self.whole.hidden(ids.to(self.whole.device), self.layers) if self.whole else self.stored_hidden(texts, longest)
        return Batch(ids, torch.tensor([end - first for _, first, end, _ in texts]), torch.tensor([prompt for *_, prompt in texts]), hidden)

    def stored_hidden(self, texts, rows):
        hidden = {layer: torch.zeros(len(texts), rows, self.dim) for layer in self.layers}
        for i, (file, first, end, _) in enumerate(texts):
            for layer in self.layers:
                hidden[layer][i, :end - first] = torch.from_numpy(self.files[file][f'hidden.{layer}'][first:end].astype(numpy.float32))
        return hidden


class Batches:
    """These groups of texts as batches on a device, which are made anew in each pass: their hidden states would fill the memory."""

    def __init__(self, data, groups, device):
        self.data, self.groups, self.device = data, groups, device

    def __iter__(self):
        return (self.data.batch(group).to(self.device) for group in self.groups)


def cut(texts, rows):
    """Divides texts into pieces of at most `rows` rows; a piece continues where the one before ended."""
    return [(file, at, min(at + rows, end), max(0, prompt - (at - first))) for file, first, end, prompt in texts
            for at in range(first, end - 2, rows)]


def batches(texts, rows, random=None):
    """Batches of texts of similar lengths, at most `rows` rows with padding (but at least one text), in random order."""
    order = list(range(len(texts))) if random is None else random.permutation(len(texts)).tolist()
    # Texts are sorted by length within this many: little padding, but each epoch has other batches.
    pool = max(64, 4 * rows * len(texts) // max(1, sum(end - first for _, first, end, _ in texts)))
    made = []
    for at in range(0, len(order), pool):
        group = []
        for i in sorted(order[at:at + pool], key=lambda i: texts[i][2] - texts[i][1]):
            length = texts[i][2] - texts[i][1]
            if group and (len(group) + 1) * length > rows:
                made.append(group)
                group = []
            group.append(texts[i])
        made.append(group)
    return made if random is None else [made[i] for i in random.permutation(len(made))]
