"""The guesses of heads, computed only from their safetensors: numpy, one row after another with a cache, like a decoder. Uses no code of
launch/training."""
import json
import pathlib
import struct

import numpy


def read(path):
    data = pathlib.Path(path).read_bytes()
    (length,) = struct.unpack('<Q', data[:8])
    header = json.loads(data[8:8 + length])
    metadata = header.pop('__metadata__')
    kinds = {'F16': 'f2', 'F32': 'f4', 'I64': 'i8', 'BOOL': '?'}
    tensors = {}
    for name, entry in header.items():
        begin, end = entry['data_offsets']
        kind = '<' + kinds[entry['dtype']] if entry['dtype'] != 'BOOL' else '?'
        values = numpy.frombuffer(data[8 + length + begin:8 + length + end], kind)
        tensors[name] = values.reshape(entry['shape'])
    return {name: values.astype('f8') if values.dtype.kind == 'f' else values for name, values in tensors.items()}, metadata


def norm(x, weight, eps):
    return x / numpy.sqrt((x * x).mean() + eps) * weight


def silu(x):
    return x / (1 + numpy.exp(-x))


def rotated(x, position, base, interleaved):
    out, size = x.copy(), x.shape[-1]
    for i in range(size // 2):
        angle = position * base**(-2 * i / size)
        a, b = (2 * i, 2 * i + 1) if interleaved else (i, i + size // 2)
        out[:, a] = x[:, a] * numpy.cos(angle) - x[:, b] * numpy.sin(angle)
        out[:, b] = x[:, a] * numpy.sin(angle) + x[:, b] * numpy.cos(angle)
    return out


class Attention:
    """Processes one row after another; `mark` and `back` remove rows again, like a decoder does with guesses."""

    def __init__(self, tensors, prefix, shape, interleaved):
        self.w = {name: tensors[f'{prefix}self_attn.{name}_proj.weight'] for name in 'qkvo'}
        self.heads, self.kv_heads, self.base = shape
        self.interleaved, self.cells = interleaved, []

    def __call__(self, x):
        position, split = len(self.cells), lambda y, heads: y.reshape(heads, -1)
        q = rotated(split(self.w['q'] @ x, self.heads), position, self.base, self.interleaved)
        k = rotated(split(self.w['k'] @ x, self.kv_heads), position, self.base, self.interleaved)
        self.cells.append((k, split(self.w['v'] @ x, self.kv_heads)))
        out = []
        for head in range(self.heads):
            group = head * self.kv_heads // self.heads
            scores = numpy.array([q[head] @ k[group] for k, _ in self.cells]) / numpy.sqrt(q.shape[1])
            p = numpy.exp(scores - scores.max())
            out.append(sum(weight * v[group] for weight, (_, v) in zip(p / p.sum(), self.cells)))
        return self.w['o'] @ numpy.concatenate(out)


class Layered:
    """The layers of a head with their caches; `feed(tensors, x)` computes the feed-forward network of the layer with this prefix."""

    def __init__(self, tensors, prefixes, shape, eps, interleaved):
        self.t, self.prefixes, self.eps = tensors, prefixes, eps
        self.attention = [Attention(tensors, prefix, shape, interleaved) for prefix in prefixes]

    def feed(self, prefix, x):
        y = norm(x, self.t[prefix + 'post_attention_layernorm.weight'], self.eps)
        w = {name: self.t[f'{prefix}mlp.{name}_proj.weight'] for name in ('gate', 'up', 'down')}
        return x + w['down'] @ (silu(w['gate'] @ y) * (w['up'] @ y))

    def guess(self, start, tokens, depths, token_of):
        """The chain of guesses after every row of a text: start(row) gives the features, tokens are the text."""
        guesses = []
        for row in range(len(tokens) - 1):
            features = self.step(start(row), tokens[row + 1])
            kept = len(self.attention[0].cells)
            chain = [token_of(features)]
            for depth in range(1, depths):
                if row + 1 + depth >= len(tokens):
                    break
                features = self.step(features, tokens[row + 1 + depth])
                chain.append(token_of(features))
            for attention in self.attention:
                del attention.cells[kept:]
            guesses.append(chain)
        return guesses


def layer(model, prefix, shape, eps, rows):
    """The outputs of a layer of the target, from its tensors in GGUF's names: RoPE pairs are (2i, 2i + 1)."""
    names = {'attn_q': 'self_attn.q_proj', 'attn_k': 'self_attn.k_proj', 'attn_v': 'self_attn.v_proj', 'attn_output': 'self_attn.o_proj',
             'attn_norm': 'norm', 'ffn_norm': 'post_attention_layernorm', 'ffn_gate': 'mlp.gate_proj', 'ffn_up': 'mlp.up_proj',
             'ffn_down': 'mlp.down_proj'}
    tensors = {f'{name}.weight': model[f'{prefix}.{stored}.weight'].astype('f8') for stored, name in names.items()}
    computed = Layered(tensors, [''], shape, eps, interleaved=True)
    return [computed.feed('', row + computed.attention[0](norm(row, tensors['norm.weight'], eps))) for row in rows]


class Dgf(Layered):
    interleaved = True

    def __init__(self, path, target, shape, eps):
        tensors, self.metadata = read(path)
        self.target = target
        assert (self.metadata.get('rope') == 'interleaved') == self.interleaved
        super().__init__(tensors, [f'layers.{i}.' for i in range(int(self.metadata['blocks']))], shape, eps, self.interleaved)

    def fuse(self, f, e):
        e = norm(e, self.t['input_layernorm.weight'], self.eps)
        h1, h2 = f @ self.t['W_1'], silu(e @ self.t['W_2'])
        z = 1 / (1 + numpy.exp(-numpy.concatenate([h1, h2]) @ self.t['W_z']))
        return z * h1 + (1 - z) * h2

    def step(self, f, token):
        x = self.fuse(f, self.target['token_embd.weight'][token])
        for i, prefix in enumerate(self.prefixes):
            y = norm(x, self.t[prefix + 'input_layernorm.weight'], self.eps) if i else x
            x = self.feed(prefix, x + self.attention[i](y))
        return x

    def guesses(self, hidden, tokens, depths):
        return self.guess(lambda row: hidden['last'][row], tokens, depths, lambda f: int((self.target['output.weight'] @ f).argmax()))


class Eagle(Dgf):
    interleaved = False

    def fuse(self, f, e):
        return self.t['fc.weight'] @ numpy.concatenate([e, f]) + self.t['fc.bias']


class Eagle3(Layered):
    def __init__(self, path, target, shape, eps):
        tensors, _ = read(path)
        self.target = target
        super().__init__(tensors, ['midlayer.'], shape, eps, interleaved=False)

    def step(self, g, token):
        e = norm(self.target['token_embd.weight'][token], self.t['midlayer.input_layernorm.weight'], self.eps)
        x = numpy.concatenate([e, norm(g, self.t['midlayer.hidden_norm.weight'], self.eps)])
        return self.feed('midlayer.', g + self.attention[0](x))

    def token_of(self, g):
        i = int((self.t['lm_head.weight'] @ norm(g, self.t['norm.weight'], self.eps)).argmax())
        return i + int(self.t['d2t'][i])

    def guesses(self, hidden, tokens, depths, layers):
        start = lambda row: self.t['fc.weight'] @ numpy.concatenate([hidden[str(layer)][row] for layer in layers])
        return self.guess(start, tokens, depths, self.token_of)


def medusa(path, target, hidden):
    """[rows][heads]"""
    t, metadata = read(path)
    guesses = []
    for h in hidden['last']:
        row = []
        for k in range(int(metadata['medusa_num_heads'])):
            x = h + silu(t[f'{k}.0.linear.weight'] @ h + t[f'{k}.0.linear.bias'])
            row.append(int((t.get(f'{k}.1.weight', target['output.weight']) @ x).argmax()))
        guesses.append(row)
    return guesses
