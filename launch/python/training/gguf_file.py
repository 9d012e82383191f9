"""An EAGLE-3 head as GGUF: its tensors have GGUF's names, its RoPE pairs are interleaved, its draft vocabulary is stored as token ids."""
import os
import pathlib

import gguf
import numpy

from common.files import part_of
from common.problem import Problem

from . import config_file, safetensors_file

LAYER = {'hidden_norm': 'attn_norm_2', 'input_layernorm': 'attn_norm', 'self_attn.q_proj': 'attn_q', 'self_attn.k_proj': 'attn_k',
         'self_attn.v_proj': 'attn_v', 'self_attn.o_proj': 'attn_output', 'post_attention_layernorm': 'ffn_norm',
         'mlp.gate_proj': 'ffn_gate', 'mlp.up_proj': 'ffn_up', 'mlp.down_proj': 'ffn_down'}
NAMES = {'fc.weight': 'fc.weight', 'norm.weight': 'output_norm.weight', 'lm_head.weight': 'output.weight',
         'embed_tokens.weight': 'token_embd.weight',
         **{f'{prefix}.{key}.weight': f'blk.0.{name}.weight' for key, name in LAYER.items() for prefix in ('midlayer', 'layers.0')}}
NEEDED = [name for name in NAMES.values() if name not in ('output.weight', 'token_embd.weight')]
TYPES = {'f32': gguf.GGMLQuantizationType.F32, 'f16': gguf.GGMLQuantizationType.F16, 'q8_0': gguf.GGMLQuantizationType.Q8_0}


def read_config(folder):
    config = config_file.read(folder)
    try:
        heads = config['num_attention_heads']
        return {'dim': config['hidden_size'], 'ffn': config['intermediate_size'], 'heads': heads,
                'kv_heads': config.get('num_key_value_heads', heads),
                'head_dim': config.get('head_dim') or config['hidden_size'] // heads, 'eps': config['rms_norm_eps'],
                'rope_base': config.get('rope_theta', 10000.0), 'context': config.get('max_position_embeddings', 2048),
                'vocabulary': config['vocab_size'], 'target_dim': config.get('target_hidden_size') or config['hidden_size'],
                'layers': config.get('eagle_aux_hidden_state_layer_ids')
                or config.get('eagle_config', {}).get('eagle_aux_hidden_state_layer_ids'),
                'norm_before_residual': bool(config.get('norm_before_residual')), 'norm_before_fc': bool(config.get('norm_before_fc'))}
    except KeyError as error:
        raise Problem(f"{folder / 'config.json'} has no {error}; give the folder of an EAGLE-3 head", 2) from None
    except (TypeError, AttributeError, ZeroDivisionError):
        raise Problem(f"{folder / 'config.json'} does not describe an EAGLE-3 head; give the folder of one", 2) from None


def interleaved(weights, heads):
    """Rows of a projection [heads · head_dim, in]: from pairs (i, i + head_dim/2) to pairs (2i, 2i + 1)."""
    return weights.reshape(heads, 2, -1, weights.shape[-1]).swapaxes(1, 2).reshape(weights.shape)


def read_tensors(path, config):
    """Float tensors by GGUF's names, float32; and d2t, token ids. Raises Problem (2) naming the first tensor that is missing or unknown."""
    stored, _ = safetensors_file.read(path)
    tensors, d2t = {}, None
    for key, values in stored.items():
        if key == 'd2t':
            d2t = values.astype(numpy.int64) + numpy.arange(len(values))
        elif key != 't2d':
            if key not in NAMES:
                raise Problem(f'{path}: {key} is not a tensor of an EAGLE-3 head; give such a head', 2)
            tensors[NAMES[key]] = values.astype(numpy.float32)
    for name in NEEDED:
        if name not in tensors:
            raise Problem(f'{path} has no {next(key for key, other in NAMES.items() if other == name)}; give an EAGLE-3 head', 2)
    if d2t is not None and ('output.weight' not in tensors or len(d2t) != len(tensors['output.weight'])):
        raise Problem(f'{path}: d2t has {len(d2t)} entries, but lm_head.weight has another number of rows; give a complete head', 2)
    for name, heads in (('blk.0.attn_q.weight', config['heads']), ('blk.0.attn_k.weight', config['kv_heads'])):
        if tensors[name].shape != (heads * config['head_dim'], 2 * config['dim']):
            raise Problem(f'{path}: {name} is {list(tensors[name].shape)}, which does not fit config.json; give both of one head', 2)
        tensors[name] = interleaved(tensors[name], heads)
    return tensors, d2t


def add_metadata(writer, config):
    writer.add_block_count(1)
    writer.add_context_length(config['context'])
    writer.add_embedding_length(config['dim'])
    writer.add_feed_forward_length(config['ffn'])
    writer.add_head_count(config['heads'])
    writer.add_head_count_kv(config['kv_heads'])
    writer.add_key_length(config['head_dim'])
    writer.add_value_length(config['head_dim'])
    writer.add_rope_dimension_count(config['head_dim'])
    writer.add_rope_freq_base(config['rope_base'])
    writer.add_layer_norm_rms_eps(config['eps'])
    writer.add_vocab_size(config['vocabulary'])
    if config['layers']:
        writer.add_array('eagle3.target_layers', config['layers'])
    writer.add_uint32('eagle3.target_hidden_size', config['target_dim'])
    writer.add_bool('eagle3.norm_before_residual', config['norm_before_residual'])
    writer.add_bool('eagle3.norm_before_fc', config['norm_before_fc'])


def stored_as(values, kind):
    """The type of a stored tensor: norms stay floats; rows that do not consist of whole blocks become F16."""
    if values.ndim == 1:
        return TYPES['f32']
    return TYPES['f16'] if kind == 'q8_0' and values.shape[-1] % 32 else TYPES[kind]


def convert(source, out, kind):
    """Writes `out` from a folder with model.safetensors and config.json, completely or not at all; returns its size in bytes."""
    folder = pathlib.Path(source)
    folder = folder if folder.is_dir() else folder.parent
    weights, new = folder / 'model.safetensors' if pathlib.Path(source).is_dir() else source, part_of(out)
    config = read_config(folder)
    tensors, d2t = read_tensors(weights, config)
    writer = gguf.GGUFWriter(new, 'eagle3')
    add_metadata(writer, config)
    for name, values in tensors.items():
        as_type = stored_as(values, kind)
        writer.add_tensor(name, gguf.quants.quantize(values, as_type), raw_dtype=as_type)
    if d2t is not None:
        writer.add_tensor('d2t', d2t)
    try:
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        os.replace(new, out)
    except OSError as error:
        raise Problem(f'{out} cannot be written ({error.strerror}); choose another place') from None
    finally:
        pathlib.Path(new).unlink(missing_ok=True)
    return pathlib.Path(out).stat().st_size
