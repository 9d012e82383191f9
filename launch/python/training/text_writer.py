"""The main part of launch/write-texts: a model asks itself questions, and answers them."""
import json
import subprocess
import sys
import time

import numpy
import torch
from torch.nn import functional

from common import places
from common.problem import Problem

from . import safetensors_file, target, whole_target
from .device import device_of, enough_memory

MOST_FIRST_TOKENS = 1500
FEWEST = 32  # texts at once: of so many, hardly all are left out
ENDS = ('tokenizer.ggml.eos_token_id', 'tokenizer.ggml.eot_token_id')


def tokenize(model, text, *flags):
    """The program's token ids. Raises Problem (2) with its words if it cannot tokenize."""
    done = subprocess.run([places.program(), 'tokenize', '-m', model, '-f', '-', '--ids', *flags], input=text, capture_output=True,
                          encoding='utf-8', errors='surrogateescape', check=False)
    if done.returncode:
        raise Problem((done.stderr.strip().splitlines() or ['yamata tokenize failed; build it again'])[-1].removeprefix('yamata: '), 2)
    return json.loads(done.stdout)


def tokenize_after_text(model, text):
    """The ids of a text that follows another: many tokenizers put a space before the first."""
    if not text:
        return []
    letter, both = tokenize(model, 'a', '--no-bos'), tokenize(model, f'a{text}', '--no-bos')
    return both[len(letter):] if both[:len(letter)] == letter else tokenize(model, text, '--no-bos')


class Frame:
    """What stands around a question: `begin` and `middle`, lists of ids. A question ends with the first token of `middle`, an answer too,
    and both with a token that ends the model's texts."""

    def __init__(self, file, options):
        before, after = (options.prompt_format or '{}').split('{}')
        ends = [file.fields[key] for key in ENDS if key in file.fields]
        self.begin = tokenize(options.model, before) or ends[:1]
        self.middle = tokenize_after_text(options.model, after)
        self.stops = {*ends, *self.middle[:1]}
        if not self.begin:
            raise Problem(f'{options.model} has no token to begin a text with; give --prompt-format')


class Writer:
    def __init__(self, whole, frame, options):
        self.whole, self.frame, self.options, self.asked = whole, frame, options, set()
        self.random = numpy.random.default_rng(options.seed)
        self.noise = torch.Generator(whole.device).manual_seed(options.seed)
        self.first_tokens = self.most_probable()

    @torch.no_grad()
    def most_probable(self):
        """The tokens with which questions begin: a small part of the vocabulary."""
        last = self.whole.hidden(torch.tensor([self.frame.begin], device=self.whole.device), ['last'])['last'][0, -1]
        count = min(MOST_FIRST_TOKENS, -(-self.whole.parts.vocabulary // 32))
        order = functional.linear(last, self.whole.parts.output).argsort(descending=True).tolist()
        return [token for token in order[:count + len(self.frame.stops)] if token not in self.frame.stops][:count]

    def batch(self):
        """How many texts are generated at once."""
        parts, o = self.whole.parts, self.options
        if o.batch or self.whole.device.type != 'cuda':
            return o.batch or 32
        rows = len(self.frame.begin) + o.question_tokens + len(self.frame.middle) + o.answer_tokens
        bytes_of_text = 4 * parts.layers * parts.kv_heads * parts.head_dim * rows + 24 * parts.vocabulary
        return max(1, min(4096, int(0.6 * torch.cuda.mem_get_info(self.whole.device)[0]) // bytes_of_text))

    def questions(self, count):
        """Half of them begin with each of first_tokens equally often, because a model left alone begins most with the same few words."""
        firsts = numpy.resize(self.random.permutation(self.first_tokens), count // 2).tolist()
        starts = [[*self.frame.begin, first] for first in firsts] + [self.frame.begin] * (count - len(firsts))
        for ids in self.whole.generate(starts, self.options.question_tokens, 1.0, self.frame.stops, self.noise):
            question = ids[len(self.frame.begin):].tolist()
            yield (question[:-1] if question[-1] in self.frame.stops else question)[:self.options.question_tokens]

    def write(self, count):
        """Up to `count` texts: (ids, number of ids of the prompt). Questions that were asked before are left out, and empty answers."""
        prompts = []
        for question in self.questions(count):
            if question and tuple(question) not in self.asked:
                self.asked.add(tuple(question))
                prompts.append([*self.frame.begin, *question, *self.frame.middle])
        if not prompts:
            return []
        texts = self.whole.generate(prompts, self.options.answer_tokens, self.options.temperature, self.frame.stops, self.noise)
        return [(ids, len(prompt)) for ids, prompt in zip(texts, prompts) if len(ids) > 2 and ids[len(prompt)] not in self.frame.stops]


def save(path, texts, model):
    """`model`: its name, or None."""
    ids = numpy.concatenate([ids for ids, _ in texts]).astype(numpy.int32)
    bounds = numpy.cumsum([0, *(len(ids) for ids, _ in texts)], dtype=numpy.int64)
    prompts = numpy.array([prompt for _, prompt in texts], numpy.int64)
    try:
        safetensors_file.write(path, {'ids': ids, 'texts': bounds, 'prompts': prompts}, {'model': model} if model else {})
    except OSError as error:
        raise Problem(f'{path} cannot be written ({error.strerror}); correct that, or choose another file with -o', 2) from None
    return len(ids)


def write_all(writer, texts, wanted):
    """Appends to `texts` until there are as many as wanted; a line on stderr says how many there are."""
    begin, batch, terminal = time.monotonic(), writer.batch(), sys.stderr.isatty()
    while len(texts) < wanted:
        missing = wanted - len(texts)
        made = writer.write(min(batch, max(FEWEST, missing + missing // 8)))  # some are left out
        if not made:
            raise Problem(f'the model wrote nothing new after {len(texts)} texts; give a fitting --prompt-format, or fewer --texts', 2)
        texts += made[:missing]
        left = (time.monotonic() - begin) / len(texts) * (wanted - len(texts))
        print(f'{chr(13) if terminal else ""}{len(texts)} of {wanted} texts, {left:.0f} s left{chr(27) + "[K" if terminal else ""}',
              end='' if terminal and len(texts) < wanted else '\n', file=sys.stderr, flush=True)


def write(options):
    """Writes the file; after Ctrl-C, with the texts that are complete."""
    if options.threads:
        torch.set_num_threads(options.threads)
    device, file, texts = device_of(options.device), target.ModelFile(options.model), []
    frame = Frame(file, options)
    rows = len(frame.begin) + options.question_tokens + len(frame.middle) + options.answer_tokens
    context = file.value('context_length', rows)
    if rows > context:
        raise Problem(f'a text may have {rows} tokens, but the model has a context of {context}; give fewer --answer-tokens')
    with enough_memory('give a smaller --batch'):
        writer = Writer(whole_target.WholeTarget(file, target.read(file).to(device)), frame, options)
        try:
            write_all(writer, texts, options.texts)
        except KeyboardInterrupt:
            if texts:
                save(options.out, texts, file.name)
            raise
    count = save(options.out, texts, file.name)
    print(f'{options.out}: {len(texts)} texts, {count} tokens, {sum(len(ids) - prompt for ids, prompt in texts)} of them in answers')
    return 0
