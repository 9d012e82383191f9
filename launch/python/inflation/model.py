"""Embeds a small llama model in a larger shape that computes the same function, up to rounding: the residual stream, the feed-forward rows
and the heads are padded with zeros, norms are scaled by the square root of the ratio of widths, and additional layers add nothing. Stored
weights are copied unchanged, in their own quantized blocks."""
import contextlib
import math
import os
import pathlib
import random
import struct

from common.files import part_of, reading

from .shapes import refusal

BLOCKS = {0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 30: (1, 2)}  # type: (values, bytes)
SCALARS = {0: 'B', 1: 'b', 2: 'H', 3: 'h', 4: 'I', 5: 'i', 6: 'f', 7: '?', 10: 'Q', 11: 'q', 12: 'd'}
STRING, ARRAY = 8, 9
INPUT = 'name a GGUF file of the llama architecture, or heads, a .safetensors file'


class InflateError(Exception):
    """The reason why a model cannot be embedded, in one line."""


def head_places(small, target):
    """The new index of each small query head; it stays in the group of its key/value head."""
    small_group, group = (shape['heads'] // shape['kv_heads'] for shape in (small, target))
    return [h // small_group * group + h % small_group for h in range(small['heads'])]


@contextlib.contextmanager
def replaced(path):
    """A file to write; it replaces the file at the path when it is complete. Raises InflateError if it cannot be written."""
    part = part_of(path)
    try:
        with open(part, 'wb') as file:
            yield file
        os.replace(part, path)
    except OSError as error:
        raise InflateError(f'{path} cannot be written ({error.strerror}); choose another place') from None
    finally:
        if os.path.exists(part):
            os.remove(part)


class Reader:
    """A GGUF file's metadata as (key, type, raw bytes, value) and its tensors as (name, shape, type, offset)."""

    def __init__(self, path):
        with reading(path, INPUT):
            self.data = pathlib.Path(path).read_bytes()
        self.at = 0
        if self.take('4s') != b'GGUF' or self.take('I') not in (2, 3):
            raise InflateError(f'{path} is no GGUF file of version 2 or 3; {INPUT}')
        tensors, pairs = self.take('Q'), self.take('Q')
        self.metadata = {}
        for _ in range(pairs):
            key, kind, begin = self.string(), self.take('I'), self.at
            value = self.value(kind)
            self.metadata[key] = (kind, self.data[begin:self.at], value)
        if (parts := self.metadata.get('split.count', (0, b'', 0))[2]) not in (0, 1):
            raise InflateError(f'{path} is one of the {parts} files of a split model; join them with llama.cpp: '
                               'llama-gguf-split --merge FIRST-FILE WHOLE.gguf')
        self.tensors = {}
        for _ in range(tensors):
            name = self.string()
            shape = [self.take('Q') for _ in range(self.take('I'))]
            self.tensors[name] = (shape, self.take('I'), self.take('Q'))
        alignment = self.metadata.get('general.alignment', (4, b'', 32))[2]
        self.begin = -(-self.at // alignment) * alignment

    def take(self, form):
        value = struct.unpack_from('<' + form, self.data, self.at)[0]
        self.at += struct.calcsize('<' + form)
        return value

    def string(self):
        size = self.take('Q')
        self.at += size
        return self.data[self.at - size:self.at].decode('utf-8', 'surrogateescape')

    def value(self, kind):
        if kind == STRING:
            return self.string()
        if kind != ARRAY:
            if kind not in SCALARS:
                raise struct.error('no type of GGUF')
            return self.take(SCALARS[kind])
        inner, count = self.take('I'), self.take('Q')
        return [self.value(inner) for _ in range(count)]

    def number(self, key):
        if key not in self.metadata:
            raise InflateError(f"the model has no '{key}'; only files of the llama architecture can be embedded")
        return self.metadata[key][2]


class Tensor:
    """A small tensor: rows of blocks, which can be rearranged."""

    def __init__(self, model, name):
        if name not in model.tensors:
            raise InflateError(f"the model has no tensor '{name}'; only files of the llama architecture can be embedded")
        self.shape, self.type, offset = model.tensors[name]
        if self.type not in BLOCKS:
            raise InflateError(f"'{name}' is of a type whose blocks cannot be rearranged; take an F32, F16, BF16, Q8_0 or Q4_0 file")
        self.values, self.bytes = BLOCKS[self.type]
        self.row_bytes = self.size(self.shape[0])
        begin = model.begin + offset
        rows = self.shape[1] if len(self.shape) > 1 else 1
        self.data = model.data[begin:begin + rows * self.row_bytes]

    def size(self, values):
        if values % self.values:
            raise InflateError(f'a width of {values} does not fill blocks of {self.values}; choose a multiple')
        return values // self.values * self.bytes

    def row(self, index):
        return self.data[index * self.row_bytes:(index + 1) * self.row_bytes]


class Embedding:
    def __init__(self, model, target, shuffle=None):
        self.model, self.target, self.shuffle = model, target, shuffle
        self.small = {key: model.number(f'llama.{name}') for key, name in
                      dict(dim='embedding_length', layers='block_count', heads='attention.head_count', kv_heads='attention.head_count_kv',
                           ffn='feed_forward_length').items()}
        self.head = self.small['dim'] // self.small['heads']
        if why := refusal(self.small, target, self.head):
            raise InflateError(why)
        # Small layer i becomes layer places[i].
        self.places = [i * target['layers'] // self.small['layers'] for i in range(self.small['layers'])]

    def head_places(self):
        return head_places(self.small, self.target)

    def plan(self):
        """(name, shape, type, function that makes the bytes) of every tensor, in order."""
        t = self.target
        yield self.matrix('token_embd.weight', 'token_embd.weight', t['dim'])
        for layer in range(t['layers']):
            small = self.places.index(layer) if layer in self.places else None
            yield from self.layer(layer, small)
        yield self.norm('output_norm.weight', 'output_norm.weight')
        if 'output.weight' in self.model.tensors:
            yield self.matrix('output.weight', 'output.weight', t['dim'])

    def layer(self, layer, small):
        t, queries = self.target, self.rows_of_heads(self.head_places(), self.target['heads'])
        keys = self.rows_of_heads(range(self.small['kv_heads']), t['kv_heads'])
        ffn = [row if row < self.small['ffn'] else None for row in range(t['ffn'])]
        dim = [row if row < self.small['dim'] else None for row in range(t['dim'])]
        to, source, zero = f'blk.{layer}.', f'blk.{small if small is not None else 0}.', small is None
        yield self.norm(to + 'attn_norm.weight', source + 'attn_norm.weight')
        yield self.matrix(to + 'attn_q.weight', source + 'attn_q.weight', t['dim'], queries, zero=zero)
        yield self.matrix(to + 'attn_k.weight', source + 'attn_k.weight', t['dim'], keys, zero=zero)
        yield self.matrix(to + 'attn_v.weight', source + 'attn_v.weight', t['dim'], keys, zero=zero)
        yield self.matrix(to + 'attn_output.weight', source + 'attn_output.weight', t['dim'], dim, self.head_places(), zero)
        yield self.norm(to + 'ffn_norm.weight', source + 'ffn_norm.weight')
        yield self.matrix(to + 'ffn_gate.weight', source + 'ffn_gate.weight', t['dim'], ffn, zero=zero)
        yield self.matrix(to + 'ffn_up.weight', source + 'ffn_up.weight', t['dim'], ffn, zero=zero)
        yield self.matrix(to + 'ffn_down.weight', source + 'ffn_down.weight', t['ffn'], dim, zero=zero)

    def rows_of_heads(self, places, heads):
        rows = [None] * (heads * self.head)
        for small, large in enumerate(places):
            for i in range(self.head):
                rows[large * self.head + i] = small * self.head + i
        return rows

    def matrix(self, name, source, width, rows=None, column_heads=None, zero=False):
        """`rows`: for each large row, the index of its small row, or None for zeros; `column_heads`: the new index of each head."""
        tensor = Tensor(self.model, source)
        rows = list(rows if rows is not None else range(tensor.shape[1]))
        if self.shuffle is not None:
            random.Random(f'{self.shuffle} {name}').shuffle(rows)
        size = tensor.size(width)

        def widened(row):
            if column_heads is None:
                return row + bytes(size - len(row))
            piece, out = tensor.size(self.head), bytearray(size)
            for small, large in enumerate(column_heads):
                out[large * piece:(large + 1) * piece] = row[small * piece:(small + 1) * piece]
            return bytes(out)

        def make():
            nothing = bytes(size)
            return b''.join(nothing if zero or row is None else widened(tensor.row(row)) for row in rows)
        return name, [width, len(rows)], tensor.type, len(rows) * size, make

    def norm(self, name, source):
        tensor, width = Tensor(self.model, source), self.target['dim']
        if tensor.type != 0:
            raise InflateError(f"'{source}' is not of type F32; convert the model with F32 norms, as llama.cpp does")
        scale = math.sqrt(self.small['dim'] / width)
        values = [scale * v for v in struct.unpack(f"<{self.small['dim']}f", tensor.row(0))] + [0.0] * (width - self.small['dim'])
        return name, [width], 0, 4 * width, lambda: struct.pack(f'<{width}f', *values)

    def metadata(self):
        """The key/value pairs of the large model, in their encoded form."""
        t = self.target
        ratio = self.small['dim'] / t['dim']
        change = {'llama.embedding_length': t['dim'], 'llama.block_count': t['layers'], 'llama.attention.head_count': t['heads'],
                  'llama.attention.head_count_kv': t['kv_heads'], 'llama.feed_forward_length': t['ffn'],
                  'llama.attention.layer_norm_rms_epsilon': self.model.number('llama.attention.layer_norm_rms_epsilon') * ratio}
        for key, (kind, raw, _) in self.model.metadata.items():
            yield key, kind, struct.pack('<' + SCALARS[kind], change[key]) if key in change else raw


def write(embedding, path, report):
    def string(text):
        raw = text.encode('utf-8', 'surrogateescape')
        return struct.pack('<Q', len(raw)) + raw
    tensors, pairs = list(embedding.plan()), list(embedding.metadata())
    header = b'GGUF' + struct.pack('<IQQ', 3, len(tensors), len(pairs))
    header += b''.join(string(key) + struct.pack('<I', kind) + raw for key, kind, raw in pairs)
    offset = 0
    for name, shape, kind, size, _ in tensors:
        header += string(name) + struct.pack(f'<I{len(shape)}QIQ', len(shape), *shape, kind, offset)
        offset += -(-size // 32) * 32
    with replaced(path) as file:
        file.write(header + bytes(-len(header) % 32))
        done = 0
        for *_, size, make in tensors:
            file.write(make() + bytes(-size % 32))
            done += size
            report(done / offset)
    return offset
