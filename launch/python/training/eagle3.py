"""EAGLE-3 (arXiv 2503.01840): one decoder layer reads hidden states of three layers of the target and the next token's embedding. For
further tokens, its output replaces the target's hidden states. Trained in the same way: over several steps on its own outputs."""
import numpy
import torch
from torch import nn
from torch.nn import functional

from . import blocks

DECAY = 0.8  # of the loss, from step to step


class MidLayer(nn.Module):
    """x = [norm(embedding), norm(g)]; g + attention(x), then + feed-forward(norm)."""

    def __init__(self, target):
        super().__init__()
        self.input_layernorm, self.hidden_norm, self.post_attention_layernorm = (blocks.Norm(target.dim, target.eps) for _ in range(3))
        self.self_attn = blocks.Attention(target, 2 * target.dim, interleaved=False)
        self.mlp = blocks.FeedForward(target.dim, target.ffn)

    def forward(self, g, embedded, past):
        g = g + self.self_attn(torch.cat((self.input_layernorm(embedded), self.hidden_norm(g)), -1), past)
        return g + self.mlp(self.post_attention_layernorm(g))


class Eagle3(nn.Module):
    kind = 'eagle3'

    def __init__(self, target, options, counts):
        """counts: how often each token occurs in the training texts; the most frequent ones become the draft's vocabulary."""
        super().__init__()
        self.target, self.depths, self.unroll = target, options.depths, options.unroll
        self.feature_layers = options.layers or target.eagle3_layers()
        size = min(options.draft_vocabulary, target.vocabulary)
        frequent = numpy.argsort(-counts, kind='stable')[:size]
        self.register_buffer('draft_ids', torch.from_numpy(numpy.sort(frequent)))
        self.fc = nn.Linear(len(self.feature_layers) * target.dim, target.dim, bias=False)
        self.midlayer = MidLayer(target)
        self.norm = blocks.Norm(target.dim, target.eps)
        self.lm_head = nn.Linear(target.dim, size, bias=False)
        blocks.initialize(self)
        with torch.no_grad():  # initialized with the target's output matrix; the draft's vocabulary is a part of the target's
            self.norm.weight.copy_(target.norm)
            self.lm_head.weight.copy_(target.output[self.draft_ids])
        if target.last_layer and options.start == 'layer':
            self.take_layer(target.last_layer)
        self.lm_head.weight.requires_grad_(not options.freeze_output)

    @torch.no_grad()
    def take_layer(self, layer):
        """Begins as this layer of the target, behind the last of the layers that are read; it does not look at tokens yet."""
        dim, part = self.target.dim, self.midlayer
        self.fc.weight.zero_()
        self.fc.weight[:, -dim:] = torch.eye(dim)
        part.hidden_norm.weight.copy_(layer['input_layernorm'])
        for name in ('q_proj', 'k_proj', 'v_proj'):
            weight = part.self_attn.get_submodule(name).weight
            weight.zero_()
            weight[:, dim:] = layer[f'self_attn.{name}']
        for name in ('self_attn.o_proj', 'post_attention_layernorm', 'mlp.gate_proj', 'mlp.up_proj', 'mlp.down_proj'):
            part.get_submodule(name).weight.copy_(layer[name])

    def start(self, batch):
        return self.fc(torch.cat([batch.hidden[str(layer)] for layer in self.feature_layers], -1))

    def step(self, g, tokens, past):
        """(the next g; the input of the draft's output matrix)."""
        g = self.midlayer(g, self.target.embedding[tokens], past)
        return g, self.norm(g)

    def loss(self, batch, _random):
        last = batch.hidden['last'].flatten(0, 1)
        first = batch.trained(0).flatten().nonzero()[:, 0]  # row r is compared with the target's row r + 1 + depth
        with torch.autocast(last.device.type, enabled=False):
            wanted = functional.linear(last[first + 1], self.target.output[self.draft_ids]).softmax(-1)
        g, past, total = self.start(batch), [], 0.0
        for depth in range(self.unroll):
            rows = batch.trained(depth).flatten().nonzero()[:, 0]
            if not len(rows):
                break
            g, normed = self.step(g, batch.ahead(batch.ids, depth + 1), past)
            same = wanted[torch.searchsorted(first, rows + depth)]
            total = total + DECAY**depth * blocks.soft_cross_entropy(self.lm_head(normed.flatten(0, 1)[rows]), same)
        return total

    def outputs(self):
        """Matrices that compute logits."""
        return [self.lm_head.weight]

    def guesses(self, batch):
        """[texts, rows] per depth: guesses from the text's own tokens and this head's own outputs."""
        g, past, guesses = self.start(batch), [], []
        for depth in range(self.depths):
            g, normed = self.step(g, batch.ahead(batch.ids, depth + 1), past)
            guesses.append(self.draft_ids[self.lm_head(normed).argmax(-1)])
        return guesses

    def tensors(self):
        named = {name: values for name, values in self.state_dict().items() if name != 'draft_ids'}
        ids = self.draft_ids
        named['d2t'] = ids - torch.arange(len(ids), device=ids.device)
        named['t2d'] = torch.zeros(self.target.vocabulary, dtype=torch.bool).index_fill_(0, ids.cpu(), True)
        return named

    def config(self):
        t = self.target
        return {'architectures': ['LlamaForCausalLMEagle3'], 'model_type': 'llama', 'hidden_size': t.dim, 'target_hidden_size': t.dim,
                'vocab_size': t.vocabulary, 'draft_vocab_size': len(self.draft_ids), 'num_hidden_layers': 1, 'intermediate_size': t.ffn,
                'num_attention_heads': t.heads, 'num_key_value_heads': t.kv_heads, 'head_dim': t.head_dim, 'rms_norm_eps': t.eps,
                'rope_theta': t.rope_base, 'hidden_act': 'silu', 'norm_before_residual': False, 'norm_before_fc': False,
                'eagle_config': {'eagle_aux_hidden_state_layer_ids': self.feature_layers, 'use_aux_hidden_state': True},
                'eagle_aux_hidden_state_layer_ids': self.feature_layers}

    def metadata(self):
        return {'format': 'pt'}
