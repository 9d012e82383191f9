#!/usr/bin/env python3
"""An independent float32 implementation, in numpy, of layers that predict a further token (MTP): the program must choose as it does.

  nextn_reference.py YAMATA HEADS_PROBE WRITE_TINY_MODEL

The models are small ones with random weights (tests/families); hidden states of their own text come from `yamata features`, the choices
compared are those of `draft_heads_probe`. Prints how often choices are equal. Ends with 77 where numpy is missing.
"""
import json
import os
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError:
    print("skipped: numpy is missing")
    sys.exit(77)

from tensor_files import Gguf, read_safetensors, write_gguf

VARIANTS = ["glm4moe-nextn", "glm4moe-nextn-own", "deepseek2-nextn", "deepseek2merged-nextn"]
STEPS = 3
WORDS = [chr(0x4E00 + 260 + number * 37 % 250) for number in range(24)]  # tokens of the models' vocabulary
PROMPTS = [" ".join(WORDS[begin:begin + 12]) for begin in range(0, 12, 2)]


def rms_norm(x, weight, epsilon=1e-5):
    return x / np.sqrt(np.mean(x * x) + epsilon) * weight


def silu(x):
    return x / (1 + np.exp(-x))


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def rotate(x, position, interleaved):
    """Rotates all of x [rows, n], in pairs."""
    half = x.shape[-1] // 2
    angle = position * 10000.0 ** (-np.arange(half) * 2.0 / x.shape[-1])
    c, s = np.cos(angle), np.sin(angle)
    a, b = (x[:, 0::2], x[:, 1::2]) if interleaved else (x[:, :half], x[:, half:])
    ra, rb = a * c - b * s, a * s + b * c
    return np.stack([ra, rb], -1).reshape(x.shape) if interleaved else np.concatenate([ra, rb], -1)


class Layer:
    """The layer after the model's last, with its own cache; processes one row at a time."""

    def __init__(self, file):
        m = file.metadata
        self.family = m["general.architecture"]
        self.m = {key.split(".", 1)[1]: value for key, value in m.items() if key.startswith(self.family + ".")}
        self.all = file.tensors
        self.at = f"blk.{self.m['block_count'] - self.m['nextn_predict_layers']}."
        self.keys, self.values = [], []

    def get(self, name, otherwise=None):
        return self.all.get(self.at + name, self.all.get(otherwise))

    def attend(self, q, k, v, scale):
        """Attention of a row: q [heads, n]; k and v [kv heads, ...]."""
        self.keys.append(k)
        self.values.append(v)
        keys, values, group = np.stack(self.keys), np.stack(self.values), len(q) // len(k)
        out = []
        for head in range(len(q)):
            scores = keys[:, head // group] @ q[head] * scale
            p = np.exp(scores - scores.max())
            out.append(p / p.sum() @ values[:, head // group])
        return self.get("attn_output.weight") @ np.concatenate(out)

    def own_heads(self, x, position):
        heads, kv_heads, rotary = self.m["attention.head_count"], self.m["attention.head_count_kv"], self.m["rope.dimension_count"]
        q, k, v = ((self.get(f"attn_{part}.weight") @ x + self.get(f"attn_{part}.bias")).reshape(count, -1)
                   for part, count in (("q", heads), ("k", kv_heads), ("v", kv_heads)))
        q, k = (np.stack([rms_norm(row, self.get(f"attn_{part}_norm.weight")) for row in rows]) for part, rows in (("q", q), ("k", k)))
        q, k = (np.concatenate([rotate(rows[:, :rotary], position, False), rows[:, rotary:]], -1) for rows in (q, k))
        return self.attend(q, k, v, q.shape[-1] ** -0.5)

    def latent_heads(self, x, position):
        heads, rotary, rank = self.m["attention.head_count"], self.m["rope.dimension_count"], self.m["attention.kv_lora_rank"]
        if self.get("attn_q.weight") is not None:
            q = self.get("attn_q.weight") @ x
        else:
            q = self.get("attn_q_b.weight") @ rms_norm(self.get("attn_q_a.weight") @ x, self.get("attn_q_a_norm.weight"))
        q = q.reshape(heads, -1)
        q = np.concatenate([q[:, :-rotary], rotate(q[:, -rotary:], position, True)], -1)
        both = self.get("attn_kv_a_mqa.weight") @ x
        latent, turned = rms_norm(both[:rank], self.get("attn_kv_a_norm.weight")), rotate(both[None, rank:], position, True)[0]
        if self.get("attn_kv_b.weight") is not None:  # for each head its keys, then its values
            both = (self.get("attn_kv_b.weight") @ latent).reshape(heads, -1)
            plain, v = both[:, :q.shape[-1] - rotary], both[:, q.shape[-1] - rotary:]
        else:
            plain, v = (np.stack([matrix @ latent for matrix in matrices])
                        for matrices in (self.get("attn_k_b.weight").swapaxes(1, 2), self.get("attn_v_b.weight")))
        k = np.concatenate([plain, np.tile(turned, (heads, 1))], -1)
        return self.attend(q, k, v, q.shape[-1] ** -0.5)

    def feed_forward(self, x, kind, expert=None):
        gate, up, down = (self.get(f"ffn_{part}_{kind}.weight") for part in ("gate", "up", "down"))
        if expert is not None:
            gate, up, down = gate[expert], up[expert], down[expert]
        return down @ (silu(gate @ x) * (up @ x))

    def experts(self, x):
        p = sigmoid(self.get("ffn_gate_inp.weight") @ x)
        choice = p + self.get("exp_probs_b.bias")
        groups = self.m.get("expert_group_count", 1)
        if groups > 1:
            parts = choice.reshape(groups, -1)
            best = np.argsort(-np.sort(parts, -1)[:, -2:].sum(-1), kind="stable")[:self.m["expert_group_used_count"]]
            allowed = np.full_like(parts, -np.inf)
            allowed[best] = parts[best]
            choice = allowed.reshape(-1)
        chosen = np.argsort(-choice, kind="stable")[:self.m["expert_used_count"]]
        weights = p[chosen] / p[chosen].sum() * self.m["expert_weights_scale"]
        return sum(w * self.feed_forward(x, "exps", e) for w, e in zip(weights, chosen)) + self.feed_forward(x, "shexp")

    def step(self, token, hidden, position):
        """The logits after the token; its hidden state is the input of the next step."""
        embedding = self.get("nextn.embed_tokens.weight", "token_embd.weight")[token]
        pair = [rms_norm(embedding, self.get("nextn.enorm.weight")), rms_norm(hidden, self.get("nextn.hnorm.weight"))]
        x = self.get("nextn.eh_proj.weight") @ np.concatenate(pair)
        attention = self.latent_heads if self.family == "deepseek2" else self.own_heads
        x = x + attention(rms_norm(x, self.get("attn_norm.weight")), position)
        norm = "ffn_norm" if self.family == "deepseek2" else "post_attention_norm"
        x = x + self.experts(rms_norm(x, self.get(norm + ".weight")))
        self.hidden = rms_norm(x, self.get("nextn.shared_head_norm.weight"))
        return self.get("nextn.shared_head_head.weight", "output.weight") @ self.hidden

    def cut(self, length):
        del self.keys[length:], self.values[length:]


def choices(layer, ids, features):
    """The choices, in the format of draft_heads_probe."""
    layer.cut(0)
    first, chains = [], []
    for at in range(1, len(ids)):
        first.append(int(np.argmax(layer.step(ids[at], features[at - 1], at))))
        chain, length = [first[-1]], len(layer.keys)
        for step in range(1, STEPS):
            chain.append(int(np.argmax(layer.step(chain[-1], layer.hidden, at + step))))
        layer.cut(length)
        chains.append(chain)
    return {"first": first, "chains": chains}


def compare(label, file, found, states):
    """Whether the program's choices equal this implementation's."""
    layer, same, all_first, chain_same, chain_all, right, distinct = Layer(file), 0, 0, 0, 0, 0, set()
    for line, begin, end in zip(found.splitlines(), states["texts"][:-1], states["texts"][1:]):
        theirs, ids = json.loads(line), states["ids"][begin:end]
        ours = choices(layer, ids, states["hidden.last"][begin:end])
        same += sum(a == b for a, b in zip(ours["first"], theirs["first"]))
        all_first += len(ours["first"])
        pairs = [(a, b, i) for a, b in zip(ours["chains"], theirs["chains"]) for i in range(1, STEPS) if a[:i] == b[:i]]
        chain_same += sum(a[i] == b[i] for a, b, i in pairs)
        chain_all += len(pairs)
        right += sum(token == ids[at] for at, token in enumerate(theirs["first"][:-1], start=2))
        distinct |= set(theirs["first"])
    fine = same >= 0.99 * all_first and chain_same >= 0.997 * chain_all and all_first > 200 and len(distinct) > 50
    print(f"{label}: first choices equal {same / all_first:.4f}, in chains {chain_same / max(1, chain_all):.4f}, of {all_first}; "
          f"{len(distinct)} different ones, right {right / all_first:.3f}{'' if fine else '   FAILED'}", flush=True)
    return fine


def layer_alone(model, file, path):
    """Writes the layer into a file of its own, like converters with --mtp."""
    names = [name for name in file.tensors if name.startswith(Layer(file).at)]
    metadata = {key: value for key, value in file.metadata.items() if not isinstance(value, list)}
    write_gguf(path, {name: file.tensors[name] for name in [*names, "token_embd.weight"]}, metadata)


def main():
    yamata, probe, writer = sys.argv[1:4]
    fine = True
    with tempfile.TemporaryDirectory() as folder:
        prompts, states = os.path.join(folder, "prompts.txt"), os.path.join(folder, "states.safetensors")
        open(prompts, "w").write("\n".join(PROMPTS) + "\n")
        for variant in VARIANTS:
            model, alone = os.path.join(folder, variant + ".gguf"), os.path.join(folder, variant + "-alone.gguf")
            subprocess.run([writer, variant, "F32", model], check=True)
            subprocess.run([yamata, "features", "-m", model, "-f", prompts, "-o", states, "--generate", "48", "--temp", "0.9", "--layers",
                            "last", "--type", "f32", "-t", "1"], check=True)
            file = Gguf(model)
            layer_alone(model, file, alone)
            for label, heads in ((variant, model), (variant + ", a file of its own", alone)):
                run = subprocess.run([probe, model, heads, states, "stored", str(STEPS)], check=True, capture_output=True, text=True)
                fine = compare(label, file, run.stdout, read_safetensors(states)) and fine
    sys.exit(not fine)


main()
