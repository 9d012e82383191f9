"""The target model: the parts that heads use, from its GGUF, dequantized and not trained."""
import dataclasses
import pathlib

import gguf
import torch

from measuring.files import begin_of
from measuring.problem import Problem

# Embedding and output are used without changes; other families scale or cap them.
FAMILIES = ('llama', 'qwen2', 'qwen3')
INTERLEAVED = ('llama',)  # their queries and keys are stored with RoPE pairs (2i, 2i + 1), the others' with (i, i + head_dim/2)

# The tensors of a layer in a GGUF file -> the Hugging Face library's names, which heads have, too.
LAYER = {'attn_norm': 'input_layernorm', 'attn_q': 'self_attn.q_proj', 'attn_k': 'self_attn.k_proj', 'attn_v': 'self_attn.v_proj',
         'attn_output': 'self_attn.o_proj', 'ffn_norm': 'post_attention_layernorm', 'ffn_gate': 'mlp.gate_proj', 'ffn_up': 'mlp.up_proj',
         'ffn_down': 'mlp.down_proj'}


@dataclasses.dataclass
class Target:
    name: str
    layers: int
    dim: int
    ffn: int
    heads: int
    kv_heads: int
    head_dim: int
    eps: float
    rope_base: float
    embedding: torch.Tensor  # [vocabulary, dim]
    output: torch.Tensor     # [vocabulary, dim]: logits = hidden after the last norm · outputᵀ
    norm: torch.Tensor       # [dim], of the last norm
    last_layer: dict         # Hugging Face's name -> weight; RoPE pairs are (i, i + head_dim/2). Empty if it is no ordinary layer

    @property
    def vocabulary(self):
        return len(self.embedding)

    def eagle3_layers(self):
        """The layers whose inputs EAGLE-3 reads, ascending: the rule of src/model/stage_model.hpp."""
        middle = self.layers // 2
        return [layer for layer in (min(2, middle - 1), middle, max(self.layers - 3, middle + 1)) if 0 <= layer < self.layers]

    def to(self, device):
        return dataclasses.replace(self, embedding=self.embedding.to(device), output=self.output.to(device), norm=self.norm.to(device))


def half_pairs(weight, heads):
    """Rows of a projection [heads · head_dim, dim]: from RoPE pairs (2i, 2i + 1) to pairs (i, i + head_dim/2)."""
    return weight.view(heads, -1, 2, weight.shape[-1]).transpose(1, 2).reshape(weight.shape)


def read_last_layer(floats, names, layers, interleaved, heads):
    """`names`: all tensors of the file. A layer with experts, for example, has other tensors."""
    stored = {f'blk.{layers - 1}.{name}.weight': name for name in LAYER}
    if not stored.keys() <= names:
        return {}
    layer = {LAYER[name]: floats(full) for full, name in stored.items()}
    for name, count in heads.items() if interleaved else ():
        layer[name] = half_pairs(layer[name], count)
    return layer


def load(path):
    """Raises Problem (2) if the file is not a GGUF, is damaged, or belongs to a family for which heads cannot be trained."""
    try:
        reader = gguf.GGUFReader(path)
        fields = {key: field.contents() for key, field in reader.fields.items() if not key.startswith('tokenizer.')}
        tensors = {tensor.name: tensor for tensor in reader.tensors}
    except (OSError, ValueError, IndexError, KeyError) as error:
        begins = not isinstance(error, OSError) and begin_of(path).startswith(b'GGUF')
        reason = getattr(error, 'strerror', None) or ('it is cut short or damaged' if begins else error)
        raise Problem(f'{path} cannot be read as a GGUF file ({reason}); give the target model with -m', 2) from None
    family = fields.get('general.architecture')
    if family not in FAMILIES:
        raise Problem(f'{path} is of the family {family}; heads are trained for {", ".join(FAMILIES)}', 2)

    def floats(name):
        return torch.from_numpy(gguf.quants.dequantize(tensors[name].data, tensors[name].tensor_type).copy()).float()

    def value(key, *default):
        return fields.get(f'{family}.{key}', *default) if default else fields[f'{family}.{key}']

    try:
        dim, heads, layers = value('embedding_length'), value('attention.head_count'), value('block_count')
        kv_heads = value('attention.head_count_kv', heads)
        embedding = floats('token_embd.weight')
        return Target(name=fields.get('general.name') or pathlib.Path(path).stem, layers=layers, dim=dim, ffn=value('feed_forward_length'),
                      heads=heads, kv_heads=kv_heads, head_dim=value('attention.key_length', dim // heads),
                      eps=value('attention.layer_norm_rms_epsilon'), rope_base=value('rope.freq_base', 10000.0), embedding=embedding,
                      output=floats('output.weight') if 'output.weight' in tensors else embedding, norm=floats('output_norm.weight'),
                      last_layer=read_last_layer(floats, tensors.keys(), layers, family in INTERLEAVED,
                                                 {'self_attn.q_proj': heads, 'self_attn.k_proj': kv_heads}))
    except (KeyError, NotImplementedError) as error:
        raise Problem(f'{path} has no {error}; give a whole model', 2) from None
