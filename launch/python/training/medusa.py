"""Medusa heads (arXiv 2401.10774): head k guesses token k + 2 ahead, only from the target's last hidden state."""
import torch
from torch import nn
from torch.nn import functional

DECAY = 0.8  # of the loss, from head to head


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.linear = nn.Linear(dim, dim)
        nn.init.zeros_(self.linear.weight)  # with zero weights, a head initially equals the target's output
        nn.init.zeros_(self.linear.bias)

    def forward(self, h):
        return h + functional.silu(self.linear(h))


class Medusa(nn.Module):
    kind = 'medusa'

    def __init__(self, target, options):
        super().__init__()
        self.target, self.depths, self.shared_output = target, options.heads, options.shared_output
        self.heads = nn.ModuleList(self.make_head() for _ in range(self.depths))

    def make_head(self):
        """A head's block and its output matrix, initialized with the target's; without a matrix of its own, the target's is used."""
        parts = [Block(self.target.dim)]
        if not self.shared_output:
            parts.append(nn.Linear(self.target.dim, self.target.vocabulary, bias=False))
            with torch.no_grad():
                parts[1].weight.copy_(self.target.output)
        return nn.ModuleList(parts)

    def logits(self, head, h):
        h = head[0](h)
        return functional.linear(h, self.target.output) if self.shared_output else head[1](h)

    def loss(self, batch, _random):
        h, total = batch.hidden['last'], 0.0
        for depth, head in enumerate(self.heads):
            known = batch.known(depth)
            wanted = batch.ahead(batch.ids, depth + 2)[known]
            if len(wanted):
                total = total + DECAY**depth * functional.cross_entropy(self.logits(head, h[known]).float(), wanted)
        return total

    def outputs(self):
        """Matrices that compute logits."""
        return [] if self.shared_output else [head[1].weight for head in self.heads]

    def guesses(self, batch):
        """[texts, rows] per depth."""
        return [self.logits(head, batch.hidden['last']).argmax(-1) for head in self.heads]

    def tensors(self):
        return {name.replace('heads.', '', 1): values for name, values in self.state_dict().items()}

    def config(self):
        return {'medusa_num_heads': self.depths, 'medusa_num_layers': 1, 'hidden_size': self.target.dim,
                'vocab_size': self.target.vocabulary}

    def metadata(self):
        return {'medusa_num_heads': self.depths, 'medusa_num_layers': 1}
