"""EAGLE's draft head (arXiv 2401.15077): a matrix combines the embedding of a token with the target's hidden state before it. With one
decoder layer, as there, it is Dovetail's head without gate and without further layers."""
import torch
from torch import nn

from .hidden_state_head import HiddenStateHead


class Eagle(HiddenStateHead):
    kind, interleaved = 'eagle', False

    def __init__(self, target, options):
        super().__init__(target, options)
        dim = target.dim
        self.fc = nn.Linear(2 * dim, dim)
        nn.init.normal_(self.fc.weight, std=(2 * dim)**-0.5)
        nn.init.zeros_(self.fc.bias)
        self.make_layers(options.blocks)

    def fuse(self, features, embedded):
        return self.fc(torch.cat((embedded, features), -1))
