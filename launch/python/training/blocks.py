"""Building blocks of heads: norms, RoPE, attention that can be unrolled over a head's own outputs, a decoder layer."""
import torch
from torch import nn
from torch.nn import functional


def rms_norm(x, weight, eps):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * weight


class Norm(nn.Module):
    """RMSNorm."""

    def __init__(self, dim, eps):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(dim)), eps

    def forward(self, x):
        return rms_norm(x, self.weight, self.eps)


def rope_angles(positions, head_dim, base, factors=1.0):
    """(cosines, sines), each [rows, head_dim/2], for positions [rows]. `factors`: divisors of the frequencies."""
    half = head_dim // 2
    frequencies = base ** (-torch.arange(half, device=positions.device).float() / half) / factors
    angles = positions[:, None].float() * frequencies
    return angles.cos(), angles.sin()


def rotate(x, angles, interleaved):
    """RoPE: rotates x [texts, heads, rows, head_dim] by rope_angles. Pairs are (2i, 2i+1) if interleaved, else (i, i + head_dim/2)."""
    cos, sin = angles
    a, b = (x[..., 0::2], x[..., 1::2]) if interleaved else x.chunk(2, -1)
    turned = (a * cos - b * sin, a * sin + b * cos)
    return torch.stack(turned, -1).flatten(-2) if interleaved else torch.cat(turned, -1)


class Attention(nn.Module):
    """Causal attention in step `s` of a head that continues from its own outputs.

    Row i of step s is s tokens after row i of step 0, which has read the target's features of rows 0..i. So it sees the keys of rows 0..i
    of step 0, and in the later steps only those of row i: its own path."""

    def __init__(self, target, width, interleaved):
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = target.heads, target.kv_heads, target.head_dim
        self.base, self.interleaved = target.rope_base, interleaved
        self.q_proj = nn.Linear(width, self.heads * self.head_dim, bias=False)
        self.k_proj = nn.Linear(width, self.kv_heads * self.head_dim, bias=False)
        self.v_proj = nn.Linear(width, self.kv_heads * self.head_dim, bias=False)
        self.o_proj = nn.Linear(self.heads * self.head_dim, target.dim, bias=False)

    def split(self, x, heads):
        return x.view(*x.shape[:2], heads, self.head_dim).transpose(1, 2)  # [texts, heads, rows, head_dim]

    def forward(self, x, past):
        """x [texts, rows, width]; past: (keys, values) of each earlier step, to which this step's are appended."""
        rows, repeats = x.shape[1], self.heads // self.kv_heads
        angles = rope_angles(torch.arange(rows, device=x.device) + len(past), self.head_dim, self.base)
        q = rotate(self.split(self.q_proj(x), self.heads), angles, self.interleaved)
        k = rotate(self.split(self.k_proj(x), self.kv_heads), angles, self.interleaved).repeat_interleave(repeats, 1)
        v = self.split(self.v_proj(x), self.kv_heads).repeat_interleave(repeats, 1)
        past.append((k, v))
        (first_k, first_v), own = past[0], past[1:]
        hidden = torch.ones(rows, rows, dtype=torch.bool, device=x.device).triu(1)
        scores = [(q @ first_k.transpose(-1, -2)).masked_fill(hidden, float('-inf')), *((q * k).sum(-1, keepdim=True) for k, _ in own)]
        weights = (torch.cat(scores, -1) / self.head_dim**0.5).float().softmax(-1).to(v.dtype)
        out = weights[..., :rows] @ first_v
        for i, (_, v) in enumerate(own):
            out = out + weights[..., rows + i, None] * v
        return self.o_proj(out.transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    def __init__(self, dim, ffn):
        super().__init__()
        self.gate_proj, self.up_proj, self.down_proj = (nn.Linear(a, b, bias=False) for a, b in ((dim, ffn), (dim, ffn), (ffn, dim)))

    def forward(self, x):
        return self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    """A decoder layer: x + attention(x), then + feed-forward(norm). The input is normalized if `input_norm`."""

    def __init__(self, target, input_norm, interleaved):
        super().__init__()
        if input_norm:
            self.input_layernorm = Norm(target.dim, target.eps)
        self.input_norm = input_norm
        self.self_attn = Attention(target, target.dim, interleaved)
        self.post_attention_layernorm = Norm(target.dim, target.eps)
        self.mlp = FeedForward(target.dim, target.ffn)

    def forward(self, x, past):
        x = x + self.self_attn(self.input_layernorm(x) if self.input_norm else x, past)
        return x + self.mlp(self.post_attention_layernorm(x))


def initialize(module, deviation=0.02):
    """Small random weights, as is usual; norms stay one."""
    for part in module.modules():
        if isinstance(part, nn.Linear):
            nn.init.normal_(part.weight, std=deviation)


def soft_cross_entropy(logits, wanted):
    """Mean over rows of the cross-entropy of logits [rows, vocabulary] with the probabilities `wanted` [rows, vocabulary]."""
    return -(wanted * logits.float().log_softmax(-1)).sum(-1).mean()
