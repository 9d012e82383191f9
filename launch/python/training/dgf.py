"""Dovetail's draft head (arXiv 2412.18934): a dynamic gate combines the target's last hidden state with the embedding of the next token."""
import torch
from torch import nn
from torch.nn import functional

from . import blocks
from .hidden_state_head import HiddenStateHead


class Dgf(HiddenStateHead):
    kind, interleaved = 'dgf', True

    def __init__(self, target, options):
        super().__init__(target, options)
        dim = target.dim
        self.input_layernorm = blocks.Norm(dim, target.eps)
        self.W_1, self.W_2 = (nn.Parameter(torch.randn(dim, dim) * dim**-0.5) for _ in range(2))
        self.W_z = nn.Parameter(torch.randn(2 * dim, dim) * 0.02)
        self.make_layers(options.blocks)

    def fuse(self, features, embedded):
        e = self.input_layernorm(embedded)
        h1, h2 = features @ self.W_1, functional.silu(e @ self.W_2)
        gate = torch.sigmoid(torch.cat((h1, h2), -1) @ self.W_z)
        return gate * h1 + (1 - gate) * h2
