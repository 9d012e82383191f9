"""The target model: the parts that heads use, from its GGUF, dequantized and not trained."""
import dataclasses
import pathlib

import gguf
import torch

from common.files import begin_of
from common.problem import Problem

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


class ModelFile:
    """An open GGUF file of a family in FAMILIES. Raises Problem (2) if the file is none, is damaged, or belongs to another family."""

    def __init__(self, path):
        self.path = path
        try:
            reader = gguf.GGUFReader(path)
            self.fields = {key: field.contents() for key, field in reader.fields.items()
                           if not key.startswith('tokenizer.') or key.endswith('_token_id')}  # its lists take long to read
            self.tensors = {tensor.name: tensor for tensor in reader.tensors}
        except (OSError, ValueError, IndexError, KeyError) as error:
            begins = not isinstance(error, OSError) and begin_of(path).startswith(b'GGUF')
            reason = getattr(error, 'strerror', None) or ('it is cut short or damaged' if begins else error)
            raise Problem(f'{path} cannot be read as a GGUF file ({reason}); give the target model with -m', 2) from None
        self.family = self.fields.get('general.architecture')
        if self.family not in FAMILIES:
            raise Problem(f'{path} is of the family {self.family}; heads are trained for {", ".join(FAMILIES)}', 2)

    @property
    def name(self):
        """What the file calls its model, or None."""
        return self.fields.get('general.name') or None

    @property
    def interleaved(self):
        return self.family in INTERLEAVED

    def floats(self, name):
        """The float32 values of a tensor. Raises Problem (2) if there is none, or if its type is unknown."""
        try:
            tensor = self.tensors[name]
            return torch.from_numpy(gguf.quants.dequantize(tensor.data, tensor.tensor_type).copy()).float()
        except (KeyError, NotImplementedError) as error:
            raise Problem(f'{self.path} has no {error}; give a whole model', 2) from None

    def value(self, key, default=None):
        """A value of the family's metadata. Raises Problem (2) if there is neither this nor a default."""
        found = self.fields.get(f'{self.family}.{key}', default)
        if found is None:
            raise Problem(f"{self.path} has no '{self.family}.{key}'; give a whole model", 2)
        return found


def read_layer(file, layer, heads):
    """Weights of a layer by their names in LAYER, with RoPE pairs (i, i + head_dim/2); None if the layer has others, such as experts.
    `heads`: number of heads of attn_q and attn_k."""
    stored = {name: f'blk.{layer}.{name}.weight' for name in LAYER}
    if not set(stored.values()) <= file.tensors.keys():
        return None
    weights = {name: file.floats(full) for name, full in stored.items()}
    for name, count in heads.items() if file.interleaved else ():
        weights[name] = half_pairs(weights[name], count)
    return weights


def read(file):
    """The parts of a ModelFile. Raises Problem (2) if one is missing."""
    dim, heads, layers = file.value('embedding_length'), file.value('attention.head_count'), file.value('block_count')
    kv_heads = file.value('attention.head_count_kv', heads)
    embedding = file.floats('token_embd.weight')
    last = read_layer(file, layers - 1, {'attn_q': heads, 'attn_k': kv_heads})
    return Target(name=file.name or pathlib.Path(file.path).stem, layers=layers, dim=dim,
                  ffn=file.value('feed_forward_length'), heads=heads, kv_heads=kv_heads,
                  head_dim=file.value('attention.key_length', dim // heads), eps=file.value('attention.layer_norm_rms_epsilon'),
                  rope_base=file.value('rope.freq_base', 10000.0), embedding=embedding,
                  output=file.floats('output.weight') if 'output.weight' in file.tensors else embedding,
                  norm=file.floats('output_norm.weight'), last_layer={LAYER[name]: weight for name, weight in (last or {}).items()})


def load(path):
    return read(ModelFile(path))
