"""Draft heads that predict the target's next hidden state, from which the target's output computes a token: EAGLE's and Dovetail's. Both
combine a hidden state with the embedding of the token that follows it, and pass the result through decoder layers."""
import torch
from torch import nn
from torch.nn import functional

from . import blocks


class HiddenStateHead(nn.Module):
    """A derived class has `kind`, `interleaved` (pairs of RoPE, see blocks.rotate) and `fuse`. It makes what fuse needs, then calls
    make_layers."""

    def __init__(self, target, options):
        super().__init__()
        self.target, self.depths = target, options.depths
        self.noise, self.cross_entropy = options.noise, options.cross_entropy

    def make_layers(self, count):
        """The first layer does not normalize its input, as in both papers' heads."""
        self.layers = nn.ModuleList(blocks.Layer(self.target, input_norm=i > 0, interleaved=self.interleaved) for i in range(count))
        blocks.initialize(self.layers)

    def step(self, features, tokens, past):
        """The predicted hidden states after `features` [texts, rows, dim] and the tokens that follow them; past: one list per layer."""
        x = self.fuse(features, self.target.embedding[tokens])
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

    def rope(self):
        """Where files of this kind name the pairs of RoPE; without the name, they are (i, i + head_dim/2)."""
        return {'rope': 'interleaved'} if self.interleaved else {}

    def config(self):
        t = self.target
        return {'hidden_size': t.dim, 'vocab_size': t.vocabulary, 'num_hidden_layers': len(self.layers), 'intermediate_size': t.ffn,
                'num_attention_heads': t.heads, 'num_key_value_heads': t.kv_heads, 'head_dim': t.head_dim, 'rms_norm_eps': t.eps,
                'rope_theta': t.rope_base, **self.rope()}

    def metadata(self):
        return {**self.rope(), 'blocks': len(self.layers)}
