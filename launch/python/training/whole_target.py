"""The whole target model in PyTorch, from its GGUF, dequantized: hidden states and texts of many sequences at once."""
import re

import numpy
import torch
from torch.nn import functional

from common.problem import Problem

from . import target
from .blocks import rms_norm, rope_angles, rotate

OUTSIDE = {'token_embd.weight', 'output.weight', 'output_norm.weight', 'rope_freqs.weight'}  # tensors that belong to no layer
BIASES = tuple(f'attn_{part}.bias' for part in 'qkv')
HEAD_NORMS = ('attn_q_norm.weight', 'attn_k_norm.weight')
CHECK_EVERY = 16  # tokens, whether all texts have ended: the answer keeps a GPU waiting
REMEDY = 'use yamata features'


def check(file, parts):
    """Raises Problem (2) if the model computes something that WholeTarget does not."""
    def refuse(what):
        raise Problem(f'{file.path} has {what}, for which hidden states are not computed here; {REMEDY}', 2)

    if file.value('expert_count', 0):
        refuse('layers with experts')
    scaling = file.value('rope.scaling.type', 'linear' if file.value('rope.scale_linear', 0) else 'none')
    if scaling != 'none':
        refuse(f'RoPE scaling ({scaling})')
    if file.value('rope.dimension_count', parts.head_dim) != parts.head_dim:
        refuse('heads of which only a part is rotated')
    inside = {*(f'{name}.weight' for name in target.LAYER), *BIASES, *(() if file.interleaved else HEAD_NORMS)}
    for name in file.tensors:
        if name not in OUTSIDE and re.sub(r'^blk\.\d+\.', '', name) not in inside:
            refuse(name)


def attention(q, k, v, causal):
    """Of q, k, v [texts, heads, rows, head_dim]; each row sees all keys, or if causal, those up to its own."""
    if hasattr(functional, 'scaled_dot_product_attention'):  # since PyTorch 2.0
        return functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
    scores = ((q / q.shape[-1]**0.5) @ k.transpose(-1, -2)).float()
    if causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1), float('-inf'))
    return scores.softmax(-1).to(v.dtype) @ v


def choose(logits, temperature, random):
    """A token for each row of logits [texts, vocabulary]: the most probable one, or one sampled at this temperature."""
    if temperature == 0:
        return logits.argmax(-1)
    noise = torch.empty(logits.shape, device=logits.device).exponential_(generator=random).clamp_min_(1e-30).log_()
    return (logits.float() / temperature - noise).argmax(-1)


class WholeTarget:
    """A model of a family in target.FAMILIES, on the device of `parts`. Products are in float16 on a GPU, else in float32; the sum over
    the layers is in float32. Raises Problem (2) naming what it does not compute."""

    def __init__(self, file, parts):
        check(file, parts)
        self.path, self.parts, self.device = file.path, parts, parts.embedding.device
        self.dtype = torch.float16 if self.device.type == 'cuda' else torch.float32
        self.layers = [self.read_layer(file, layer) for layer in range(parts.layers)]
        self.output = parts.output.to(self.dtype)
        self.rope_factors = file.floats('rope_freqs.weight').to(self.device) if 'rope_freqs.weight' in file.tensors else 1.0

    def read_layer(self, file, layer):
        t = self.parts
        heads = {'attn_q': t.heads, 'attn_k': t.kv_heads}
        weights = target.read_layer(file, layer, heads)
        if weights is None:
            raise Problem(f'{file.path} lacks weights of layer {layer}; give a whole model', 2)

        def product(*names):
            return torch.cat([weights[name] for name in names]).to(self.device, self.dtype)

        def optional(names):
            full = [f'blk.{layer}.{name}' for name in names]
            return [file.floats(name) for name in full] if file.tensors.keys() & full else None

        biases, norms = optional(BIASES), optional(HEAD_NORMS)
        if biases and file.interleaved:
            biases[:2] = (target.half_pairs(bias[:, None], count)[:, 0] for bias, count in zip(biases, heads.values()))
        return {'attn_norm': weights['attn_norm'].to(self.device), 'ffn_norm': weights['ffn_norm'].to(self.device),
                'qkv': product('attn_q', 'attn_k', 'attn_v'), 'attn_output': product('attn_output'),
                'gate_up': product('ffn_gate', 'ffn_up'), 'ffn_down': product('ffn_down'),
                'qkv_bias': torch.cat(biases).to(self.device, self.dtype) if biases else None,
                'head_norms': [norm.to(self.device) for norm in norms] if norms else None}

    def angles(self, positions):
        return [values.to(self.dtype) for values in rope_angles(positions, self.parts.head_dim, self.parts.rope_base, self.rope_factors)]

    def layer(self, x, w, angles, attend):
        """The output for x [texts, rows, dim]. attend(q, k, v), each [texts, heads, rows, head_dim], gives what attention adds up."""
        t = self.parts
        h = rms_norm(x, w['attn_norm'], t.eps).to(self.dtype)
        qkv = functional.linear(h, w['qkv'], w['qkv_bias']).view(*x.shape[:2], -1, t.head_dim).transpose(1, 2)
        q, k, v = qkv.split((t.heads, t.kv_heads, t.kv_heads), 1)
        if w['head_norms']:
            q, k = (rms_norm(part.float(), weight, t.eps).to(self.dtype) for part, weight in zip((q, k), w['head_norms']))
        out = attend(rotate(q, angles, False), rotate(k, angles, False), v)
        x = x + functional.linear(out.transpose(1, 2).flatten(2), w['attn_output']).float()
        gate, up = functional.linear(rms_norm(x, w['ffn_norm'], t.eps).to(self.dtype), w['gate_up']).chunk(2, -1)
        return x + functional.linear(functional.silu(gate) * up, w['ffn_down']).float()

    @torch.no_grad()
    def hidden(self, ids, layers):
        """{name: float32 [texts, rows, dim]} for ids [texts, rows]: the input of each layer that is named, and 'last', the hidden states
        after the last norm. Raises Problem (2) if they are not finite."""
        x, found, repeats = self.parts.embedding[ids].float(), {}, self.parts.heads // self.parts.kv_heads
        angles = self.angles(torch.arange(ids.shape[1], device=self.device))

        def attend(q, k, v):
            return attention(q, k.repeat_interleave(repeats, 1), v.repeat_interleave(repeats, 1), True)

        for i, w in enumerate(self.layers):
            if str(i) in layers:
                found[str(i)] = x
            x = self.layer(x, w, angles, attend)
        found['last'] = rms_norm(x, self.parts.norm, self.parts.eps)
        if not torch.isfinite(found['last']).all():
            why = 'they exceed half precision; use --device cpu, or yamata features'
            raise Problem(f'{self.path}: its hidden states are not finite: '
                          + (why if self.dtype == torch.float16 else 'its weights or their scales may be damaged; copy it again'), 2)
        return found

    def next_logits(self, ids, at, cache):
        """[texts, vocabulary] after ids [texts], which are at position `at`; appends to cache [layers, 2, texts, kv_heads, rows, head_dim]
        of keys and values."""
        t, x, angles = self.parts, self.parts.embedding[ids[:, None]].float(), self.angles(torch.tensor([at], device=self.device))
        for w, (keys, values) in zip(self.layers, cache):
            def attend(q, k, v, keys=keys, values=values):
                keys[:, :, at:at + 1], values[:, :, at:at + 1] = k, v
                groups = q.reshape(len(ids), t.kv_heads, -1, t.head_dim)  # the heads that share keys
                return attention(groups, keys[:, :, :at + 1], values[:, :, :at + 1], False).reshape(q.shape)
            x = self.layer(x, w, angles, attend)
        return functional.linear(rms_norm(x[:, 0], t.norm, t.eps).to(self.dtype), self.output)

    @torch.no_grad()
    def generate(self, prompts, tokens, temperature=0.0, stops=(), random=None):
        """Continues all prompts (lists of ids) at once by up to `tokens` tokens each; temperature 0 is greedy. Returns arrays of ids:
        prompt and continuation, which ends with one of `stops` if that was generated. random: a torch.Generator of this device."""
        if hasattr(torch.backends.cuda, 'enable_cudnn_sdp'):
            torch.backends.cuda.enable_cudnn_sdp(False)  # it compiles a plan for each number of keys
        t, count, shortest = self.parts, len(prompts), min(map(len, prompts))
        rows = max(map(len, prompts)) + tokens
        lengths = torch.tensor([len(prompt) for prompt in prompts], device=self.device)
        ids = torch.zeros(count, rows, dtype=torch.int64)
        for i, prompt in enumerate(prompts):
            ids[i, :len(prompt)] = torch.as_tensor(prompt)
        ids, ends = ids.to(self.device), torch.tensor(sorted(stops), dtype=torch.int64, device=self.device)
        cache = torch.zeros(t.layers, 2, count, t.kv_heads, rows, t.head_dim, dtype=self.dtype, device=self.device)
        ended = torch.zeros(count, dtype=torch.bool, device=self.device)
        for at in range(rows - 1):
            logits = self.next_logits(ids[:, at], at, cache)
            if at + 1 < shortest:
                continue
            written = lengths <= at + 1
            ids[:, at + 1] = torch.where(written, choose(logits, temperature, random), ids[:, at + 1])
            ended |= written & torch.isin(ids[:, at + 1], ends) | (lengths + tokens <= at + 2)
            if at % CHECK_EVERY == 0 and bool(ended.all()):
                break
        return [until_stop(row[:length + tokens], length, stops) for row, length in zip(ids.cpu().numpy(), lengths.tolist())]


def until_stop(ids, prompt, stops):
    found = numpy.flatnonzero(numpy.isin(ids[prompt:], list(stops)))
    return ids[:prompt + found[0] + 1] if len(found) else ids
