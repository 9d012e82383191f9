"""Embeds draft heads of a small model in a larger shape, for the larger model that computes the same function: their guesses stay the same,
at the cost of large heads. Matrices are padded with zeros and norms are scaled, as for the model."""
import json
import math
import pathlib
import re
import struct

from common.files import reading
from common.json_shape import INDEX, TEXT, fault, require
from common.problem import Problem

from .model import INPUT, InflateError, head_places, replaced
from .shapes import refusal

TENSOR = {'dtype': TEXT, 'shape': [INDEX], 'data_offsets': ((lambda value: isinstance(value, list) and len(value) == 2
                                                             and all(map(INDEX[0], value))), 'begin and end')}
SIZES = {'F16': 2, 'BF16': 2, 'F32': 4}


class DraftHeads:
    """A safetensors file of Medusa heads, or of a draft head of EAGLE's first layout or Dovetail's (DGF)."""

    def __init__(self, path, target):
        with reading(path, INPUT):
            data = pathlib.Path(path).read_bytes()
        try:
            size = struct.unpack_from('<Q', data)[0]
            self.tensors = json.loads(data[8:8 + size])
            self.metadata = self.tensors.pop('__metadata__', {})
        except (ValueError, RecursionError, AttributeError, TypeError, struct.error):
            raise InflateError(f'{path} is no safetensors file; {INPUT}') from None
        for name, tensor in self.tensors.items():
            require(path, 'a safetensors file', fault(tensor, TENSOR, name), INPUT)
            if tensor['data_offsets'][1] > len(data) - 8 - size:
                raise Problem(f'{path} is cut short or damaged; copy it again', 2)
        self.data, self.target = data[8 + size:], target
        self.head = target['dim'] // target['heads']
        self.small = self.read_shape(path)

    def read_shape(self, path):
        def rows(pattern):
            return next((t['shape'][0] for name, t in self.tensors.items() if re.search(pattern, name)), 0)
        small = {'dim': rows(r'\.linear\.weight$') or rows(r'layernorm\.weight$'), 'heads': rows(r'q_proj\.weight$') // self.head,
                 'kv_heads': rows(r'k_proj\.weight$') // self.head, 'ffn': rows(r'gate_proj\.weight$')}
        if not small['dim'] or any('hidden_norm' in name for name in self.tensors):
            raise InflateError(f"{path} holds neither Medusa heads nor a draft head of EAGLE's first layout or Dovetail's; "
                               'name such a file')
        if why := refusal(small, self.target, self.head):
            raise InflateError(why)
        return small

    def places(self, name, side):
        """(first small, first large, count) of the ranges to which a tensor's rows or columns are moved, and the number of rows or columns
        after that."""
        s, t, head = self.small, self.target, self.head
        dim, whole = ([(0, 0, s['dim'])], t['dim']), None
        twice = ([(0, 0, s['dim']), (s['dim'], t['dim'], s['dim'])], 2 * t['dim'])
        ffn = ([(0, 0, s['ffn'])], t['ffn'])
        kv = ([(0, 0, s['kv_heads'] * head)], t['kv_heads'] * head)
        queries = whole
        if s['heads']:
            queries = ([(i * head, place * head, head) for i, place in enumerate(head_places(s, t))], t['heads'] * head)
        rules = [(r'q_proj\.weight$', (queries, dim)), (r'[kv]_proj\.weight$', (kv, dim)), (r'o_proj\.weight$', (dim, queries)),
                 (r'(gate|up)_proj\.weight$', (ffn, dim)), (r'down_proj\.weight$', (dim, ffn)), (r'^fc\.weight$', (dim, twice)),
                 (r'^W_z$', (twice, dim)), (r'^W_[12]$|\.linear\.weight$', (dim, dim)), (r'norm\.weight$|bias$', (dim, whole)),
                 (r'^(\d+\.\d+|embed_tokens|lm_head)\.weight$', (whole, dim))]
        found = next((sides for pattern, sides in rules if re.search(pattern, name)), None)
        if not found:
            raise InflateError(f"tensor '{name}' belongs to no heads that can be embedded; name Medusa heads, or a draft head of "
                               "EAGLE's first layout or Dovetail's")
        return found[side]

    def padded(self, name):
        """A tensor in the large shape: its type, shape and bytes."""
        kind, shape = self.tensors[name]['dtype'], self.tensors[name]['shape']
        if kind not in SIZES:
            raise InflateError(f"tensor '{name}' is {kind}; only {', '.join(SIZES)} can be embedded")
        begin, end = self.tensors[name]['data_offsets']
        values = self.data[begin:end]
        if name.endswith('norm.weight'):
            return 'F32', [self.target['dim']], self.norm(kind, values)
        size = SIZES[kind]
        if len(shape) == 1:
            return kind, [self.target['dim']], values + bytes(size * self.target['dim'] - len(values))
        columns, width = self.places(name, 1)
        rows, height = self.places(name, 0) or ([(0, 0, shape[0])], shape[0])
        stride, out = shape[1] * size, bytearray(height * width * size)
        for small, large, count in rows:
            for row in range(count):
                for first, at, length in columns:
                    source, to = (small + row) * stride + first * size, ((large + row) * width + at) * size
                    out[to:to + length * size] = values[source:source + length * size]
        return kind, [height, width], bytes(out)

    def norm(self, kind, values):
        small, large = self.small['dim'], self.target['dim']
        if kind == 'BF16':
            weights = struct.unpack(f'<{small}f', b''.join(b'\0\0' + values[i:i + 2] for i in range(0, 2 * small, 2)))
        else:
            weights = struct.unpack(f"<{small}{'e' if kind == 'F16' else 'f'}", values)
        scale = math.sqrt(small / large)
        return struct.pack(f'<{large}f', *(scale * weight for weight in weights), *[0.0] * (large - small))


def write(draft_heads, path, report):
    header, tensors, offset = {'__metadata__': draft_heads.metadata}, [], 0
    for done, name in enumerate(sorted(draft_heads.tensors), 1):
        kind, shape, values = draft_heads.padded(name)
        header[name] = {'dtype': kind, 'shape': shape, 'data_offsets': [offset, offset + len(values)]}
        tensors.append(values)
        offset += len(values)
        report(done / len(draft_heads.tensors))
    text = json.dumps(header).encode()
    text += b' ' * (-len(text) % 8)
    with replaced(path) as file:
        file.writelines([struct.pack('<Q', len(text)), text, *tensors])
    return offset
