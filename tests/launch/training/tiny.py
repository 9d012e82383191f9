"""A tiny target whose features are easy to learn: each token has one successor, which the last hidden state determines."""
import gguf
import numpy

from training import safetensors_file

LAYERS, DIM, FFN, HEADS, KV_HEADS, VOCABULARY, EPS, ROPE_BASE = 8, 32, 64, 4, 2, 64, 1e-5, 10000.0
READ = [2, 4, 5]  # the layers whose inputs EAGLE-3 reads: the third, the middle one, the third from the end


def weights(seed=7, layers=LAYERS):
    """Embedding, output, and the last layer: all that training reads."""
    random = numpy.random.default_rng(seed)
    model = {'token_embd.weight': random.standard_normal((VOCABULARY, DIM)).astype('f4'), 'output_norm.weight': numpy.ones(DIM, 'f4'),
             'output.weight': random.standard_normal((VOCABULARY, DIM)).astype('f4')}
    kv = KV_HEADS * DIM // HEADS
    shapes = {'attn_q': (DIM, DIM), 'attn_k': (kv, DIM), 'attn_v': (kv, DIM), 'attn_output': (DIM, DIM), 'ffn_gate': (FFN, DIM),
              'ffn_up': (FFN, DIM), 'ffn_down': (DIM, FFN)}
    for name in ('attn_norm', 'ffn_norm'):
        model[f'blk.{layers - 1}.{name}.weight'] = 1 + 0.1 * random.standard_normal(DIM).astype('f4')
    for name, shape in shapes.items():
        model[f'blk.{layers - 1}.{name}.weight'] = 0.3 * random.standard_normal(shape).astype('f4')
    return model


def write_target(path, family='llama', without=(), layers=LAYERS):
    """`without`: words; tensors that have one in their name are left out."""
    writer = gguf.GGUFWriter(path, family)
    writer.add_name('tiny')
    writer.add_block_count(layers)
    writer.add_embedding_length(DIM)
    writer.add_feed_forward_length(FFN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(EPS)
    writer.add_rope_freq_base(ROPE_BASE)
    for name, values in weights(layers=layers).items():
        if not any(word in name for word in without):
            writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_features(path, texts=24, seed=3, prompt=2, dim=DIM, read=READ):
    """Writes texts of 9 to 30 tokens; the target has "generated" all tokens but the first `prompt`: always the successor."""
    random = numpy.random.default_rng(seed)
    successor = numpy.random.default_rng(1).permutation(VOCABULARY)
    target, ids, bounds = weights(), [], [0]
    for _ in range(texts):
        text = [int(random.integers(VOCABULARY))]
        while len(text) < random.integers(9, 30):
            text.append(int(successor[text[-1]]))
        ids += text
        bounds.append(len(ids))
    ids = numpy.array(ids, numpy.int32)
    rows = [target['output.weight'][successor[ids]] * 2, *(target['token_embd.weight'][successor[ids]] * scale for scale in (1, 2, 3))]
    rows = [values + 0.1 * random.standard_normal(values.shape) for values in rows]
    hidden = {f'hidden.{name}': numpy.resize(values, (len(ids), dim)).astype(numpy.float16) for name, values in zip(['last', *read], rows)}
    safetensors_file.write(path, {'ids': ids, 'texts': numpy.array(bounds, numpy.int64), 'prompts': numpy.full(texts, prompt, numpy.int64),
                                  **hidden}, {})
