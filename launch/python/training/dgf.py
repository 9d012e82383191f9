"""Dovetail's draft head (arXiv 2412.18934): a dynamic gate combines the target's last hidden state with the embedding of the next token.
Decoder layers then predict the next hidden state, from which the target's output computes a token."""
import torch
from torch import nn
from torch.nn import functional

from . import blocks


class Dgf(nn.Module):
    kind = 'dgf'

    def __init__(self, target, options):
        super().__init__()
        self.target, self.depths = target, options.depths
        self.noise, self.cross_entropy = options.noise, options.cross_entropy
        dim = target.dim
        self.input_layernorm = blocks.Norm(dim, target.eps)
        self.W_1, self.W_2 = (nn.Parameter(torch.randn(dim, dim) * dim**-0.5) for _ in range(2))
        self.W_z = nn.Parameter(torch.randn(2 * dim, dim) * 0.02)
        self.layers = nn.ModuleList(blocks.Layer(target, input_norm=i > 0, interleaved=True) for i in range(options.blocks))
        blocks.initialize(self.layers)

    def step(self, features, tokens, past):
        """The predicted hidden states after `features` [texts, rows, dim] and the tokens that follow them; past: one list per layer."""
        e = self.input_layernorm(self.target.embedding[tokens])
        h1, h2 = features @ self.W_1, functional.silu(e @ self.W_2)
        gate = torch.sigmoid(torch.cat((h1, h2), -1) @ self.W_z)
        x = gate * h1 + (1 - gate) * h2
        for layer, before in zip(self.layers, past):
            x = layer(x, before)
        return x

    def loss(self, batch, random):
        last = batch.hidden['last']
        noise = (torch.rand(last.shape, generator=random) - 0.5).to(last.device) * self.noise * 512 / last.shape[1]
        made = self.step(last + noise, batch.ahead(batch.ids, 1), [[] for _ in self.layers])
        known = batch.known(0)
        wanted, made = batch.ahead(last, 1)[known], made[known].float()
        tokens = functional.linear(wanted, self.target.output).softmax(-1)
        return (functional.smooth_l1_loss(made, wanted)
                + self.cross_entropy * blocks.soft_cross_entropy(functional.linear(made, self.target.output), tokens))

    def outputs(self):
        """Matrices that compute logits: the model's own, which is not trained."""
        return []

    def guesses(self, batch):
        """[texts, rows] per depth: guesses from the text's own tokens and this head's own hidden states."""
        features, past, guesses = batch.hidden['last'], [[] for _ in self.layers], []
        for depth in range(self.depths):
            features = self.step(features, batch.ahead(batch.ids, depth + 1), past)
            guesses.append(functional.linear(features, self.target.output).argmax(-1))
        return guesses

    def tensors(self):
        return self.state_dict()

    def config(self):
        t = self.target
        return {'hidden_size': t.dim, 'vocab_size': t.vocabulary, 'num_hidden_layers': len(self.layers), 'intermediate_size': t.ffn,
                'num_attention_heads': t.heads, 'num_key_value_heads': t.kv_heads, 'head_dim': t.head_dim, 'rms_norm_eps': t.eps,
                'rope_theta': t.rope_base, 'rope': 'interleaved'}

    def metadata(self):
        return {'rope': 'interleaved', 'blocks': len(self.layers)}
