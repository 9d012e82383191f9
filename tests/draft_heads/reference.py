#!/usr/bin/env python3
"""An independent float32 implementation of heads, in numpy: the program's heads must choose as it does.

  reference.py YAMATA HEADS_PROBE SOURCE_FOLDER

Hidden states of the demonstration model on its own greedy text come from `yamata features`; the choices compared are those of
`draft_heads_probe`. Prints how often choices are equal, and how often they are the text's next token. Ends with 77 where numpy is missing.
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

from tensor_files import Gguf, read_safetensors, write_gguf, write_safetensors

EPSILON = 1e-5


# ---- computing heads ----

def rms_norm(x, weight, epsilon=EPSILON):
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + epsilon) * weight


def silu(x):
    return x / (1 + np.exp(-x))


def rotate(x, position, interleaved, base):
    """x: [heads, head_dim]"""
    half = x.shape[-1] // 2
    angle = position * base ** (-np.arange(half) * 2.0 / x.shape[-1])
    c, s = np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)
    a, b = (x[:, 0::2], x[:, 1::2]) if interleaved else (x[:, :half], x[:, half:])
    ra, rb = a * c - b * s, a * s + b * c
    return np.stack([ra, rb], -1).reshape(x.shape) if interleaved else np.concatenate([ra, rb], -1)


class Block:
    """Attention and feed-forward with its own cache; processes one row at a time."""

    def __init__(self, w, name, head_dim, interleaved, base):
        self.w, self.name, self.head_dim, self.interleaved, self.base = w, name, head_dim, interleaved, base
        self.keys, self.values = [], []

    def get(self, name):
        return self.w.get(self.name + name)

    def run(self, attention_input, residual, position):
        q = (self.get("self_attn.q_proj.weight") @ attention_input).reshape(-1, self.head_dim)
        k = (self.get("self_attn.k_proj.weight") @ attention_input).reshape(-1, self.head_dim)
        v = (self.get("self_attn.v_proj.weight") @ attention_input).reshape(-1, self.head_dim)
        q, k = rotate(q, position, self.interleaved, self.base), rotate(k, position, self.interleaved, self.base)
        self.keys.append(k)
        self.values.append(v)
        keys, values = np.stack(self.keys), np.stack(self.values)  # [rows, kv heads, head_dim]
        group = len(q) // len(k)
        out = []
        for head in range(len(q)):
            scores = keys[:, head // group] @ q[head] / np.sqrt(self.head_dim)
            p = np.exp(scores - scores.max())
            out.append(p / p.sum() @ values[:, head // group])
        x = residual + self.get("self_attn.o_proj.weight") @ np.concatenate(out)
        h = rms_norm(x, self.get("post_attention_layernorm.weight"))
        gated = silu(self.get("mlp.gate_proj.weight") @ h) * (self.get("mlp.up_proj.weight") @ h)
        return x + self.get("mlp.down_proj.weight") @ gated

    def length(self):
        return len(self.keys)

    def cut(self, length):
        del self.keys[length:], self.values[length:]


class Medusa:
    def __init__(self, w, target):
        self.w, self.output = w, target["output.weight"]
        self.heads = sum(1 for name in w if name.endswith(".0.linear.bias"))

    def begin(self):
        self.depth = 0

    def step(self, token, feature, position, own):
        """The logits after `token`; own: the token is a guess."""
        self.depth = self.depth + 1 if own else 0
        self.feature = self.feature if own else feature
        k = self.depth
        h = self.feature + silu(self.w[f"{k}.0.linear.weight"] @ self.feature + self.w[f"{k}.0.linear.bias"])
        return self.w.get(f"{k}.1.weight", self.output) @ h

    def mark(self):
        return None

    def back(self, mark):
        pass


class Recurrent:
    """Computes the next hidden state from a token and the hidden state before it."""

    def __init__(self, w, target, head_dim, interleaved=False, base=10000.0):
        self.w, self.embedding, self.output = w, target["token_embd.weight"], target.get("output.weight", target["token_embd.weight"])
        count = len({name.split(".")[1] for name in w if name.startswith("layers.")}) or 1
        first = "midlayer." if "midlayer.self_attn.q_proj.weight" in w else "layers.0."
        self.blocks = [Block(w, first if i == 0 else f"layers.{i}.", head_dim, interleaved, base) for i in range(count)]

    def begin(self):
        for block in self.blocks:
            block.cut(0)

    def step(self, token, feature, position, own):
        self.hidden = self.compute(self.embedding[token], self.hidden if own else feature, position, own)
        return self.logits(self.hidden)

    def mark(self):
        return self.blocks[0].length(), self.hidden

    def back(self, mark):
        length, self.hidden = mark
        for block in self.blocks:
            block.cut(length)

    def logits(self, hidden):
        return self.output @ hidden


class Dgf(Recurrent):
    def fuse(self, e, f):
        e = rms_norm(e, self.w["input_layernorm.weight"])
        h1, h2 = f @ self.w["W_1"], silu(e @ self.w["W_2"])
        z = 1 / (1 + np.exp(-(np.concatenate([h1, h2]) @ self.w["W_z"])))
        return z * h1 + (1 - z) * h2

    def compute(self, e, f, position, own):
        x = self.fuse(e, f)
        for i, block in enumerate(self.blocks):
            norm = block.get("input_layernorm.weight")
            x = block.run(x if norm is None else rms_norm(x, norm), x, position)
        return x


class Eagle(Dgf):
    def fuse(self, e, f):
        return self.w["fc.weight"] @ np.concatenate([e, f]) + self.w.get("fc.bias", 0)


class Eagle3(Recurrent):
    norm_before_residual = False

    def compute(self, e, f, position, own):
        g = f if own else self.w["fc.weight"] @ f
        block = self.blocks[0]
        normed = rms_norm(g, block.get("hidden_norm.weight"))
        x = np.concatenate([rms_norm(e, block.get("input_layernorm.weight")), normed])
        return block.run(x, normed if self.norm_before_residual else g, position)

    def logits(self, hidden):
        logits = self.w["lm_head.weight"] @ rms_norm(hidden, self.w["norm.weight"])
        if "d2t" not in self.w:
            return logits
        spread = np.full(len(self.embedding), -np.inf, np.float32)
        spread[np.arange(len(logits)) + self.w["d2t"]] = logits
        return spread


# ---- comparisons ----

def choices(model, ids, features, steps):
    """The choices, in the format of draft_heads_probe."""
    model.begin()
    first, chains = [], []
    for at in range(1, len(ids)):
        first.append(int(np.argmax(model.step(ids[at], features[at - 1], at, False))))
        mark, chain = model.mark(), [first[-1]]
        for step in range(1, steps):
            chain.append(int(np.argmax(model.step(chain[-1], None, at + step, True))))
        model.back(mark)
        chains.append(chain)
    return {"first": first, "chains": chains}


class Comparison:
    def __init__(self, yamata, probe, source, folder):
        self.yamata, self.probe, self.folder = yamata, probe, folder
        self.target_path = os.path.join(source, "models", "tales-target-q8_0.gguf")
        self.target = Gguf(self.target_path).tensors
        self.states = os.path.join(folder, "states.safetensors")
        self.write_states()
        states = read_safetensors(self.states)
        self.ids, self.texts, self.layers = states["ids"], states["texts"], states
        self.failed = False

    def write_states(self):
        prompts = ["Once upon a time there was a king who had three sons.", "The old woman looked at the wolf and said",
                   "There was once a poor miller", '"Who are you?" asked the prince.', "In the middle of the dark forest there stood",
                   "The end of the story is", "Then he went", " and the youngest of them all"]
        text = os.path.join(self.folder, "prompts.txt")
        open(text, "w").write("\n".join(prompts) + "\n")
        subprocess.run([self.yamata, "features", "-m", self.target_path, "-f", text, "-o", self.states, "--generate", "128", "--layers",
                        "eagle3,last", "--type", "f32", "-t", "1"], check=True)

    def features(self, names):
        return np.concatenate([self.layers["hidden." + name] for name in names], axis=1)

    def compare(self, label, model, path, names, steps, quant, least=0.99, rates=None):
        out = subprocess.run([self.probe, self.target_path, path, self.states, quant, str(steps)], check=True, capture_output=True,
                             text=True)
        features = self.features(names)
        same = all_first = chain_same = chain_all = 0
        right, places = np.zeros(steps), np.zeros(steps)
        for line, begin, end in zip(out.stdout.splitlines(), self.texts[:-1], self.texts[1:]):
            theirs, ids = json.loads(line), self.ids[begin:end]
            ours = choices(model, ids, features[begin:end], steps)
            same += sum(a == b for a, b in zip(ours["first"], theirs["first"]))
            all_first += len(ours["first"])
            chain_same += sum(a[i] == b[i] for a, b in zip(ours["chains"], theirs["chains"]) for i in range(steps) if a[:i] == b[:i])
            chain_all += sum(a[:i] == b[:i] for a, b in zip(ours["chains"], theirs["chains"]) for i in range(steps))
            for at, token in enumerate(theirs["first"][:-1], start=2):
                right[0] += token == ids[at]
                places[0] += 1
            for number, chain in enumerate(theirs["chains"]):
                for i in range(1, steps):
                    at = number + 2 + i
                    if at < len(ids):
                        right[i] += chain[i] == ids[at]
                        places[i] += 1
        shares = right / np.maximum(places, 1)
        fine = same >= least * all_first and chain_same >= least * chain_all
        if rates is not None:
            fine = fine and all(abs(a - b) <= 0.02 for a, b in zip(shares, rates))
        self.failed |= not fine
        print(f"{label} {quant}: first choices equal {same / all_first:.4f}, in chains {chain_same / max(1, chain_all):.4f}; "
              f"right {' '.join(f'{s:.3f}' for s in shares)}{'' if fine else '   FAILED'}")


def random_head(rng, wide, dim, heads, kv_heads, head_dim, ffn, name):
    def matrix(rows, cols):
        return (rng.standard_normal((rows, cols)) / np.sqrt(cols)).astype(np.float16)

    def norm():
        return (1 + 0.2 * rng.standard_normal(dim)).astype(np.float16)

    inputs = 2 * dim if wide else dim
    w = {name + "self_attn.q_proj.weight": matrix(heads * head_dim, inputs),
         name + "self_attn.k_proj.weight": matrix(kv_heads * head_dim, inputs),
         name + "self_attn.v_proj.weight": matrix(kv_heads * head_dim, inputs),
         name + "self_attn.o_proj.weight": matrix(dim, heads * head_dim),
         name + "post_attention_layernorm.weight": norm(), name + "mlp.gate_proj.weight": matrix(ffn, dim),
         name + "mlp.up_proj.weight": matrix(ffn, dim), name + "mlp.down_proj.weight": matrix(dim, ffn)}
    if wide:
        w[name + "input_layernorm.weight"] = norm()
        w[name + "hidden_norm.weight"] = norm()
    return w


def eagle3_gguf(path, w, name, target_layers, before):
    """Writes the same head like a converter: queries and keys are permuted, so that pairs that rotate together are adjacent."""

    def permuted(array, heads):
        rows, columns = array.shape
        return array.reshape(heads, 2, rows // heads // 2, columns).swapaxes(1, 2).reshape(rows, columns)

    names = {"self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
             "mlp.down_proj": "ffn_down"}
    norms = {"input_layernorm": "attn_norm", "hidden_norm": "attn_norm_2", "post_attention_layernorm": "ffn_norm"}
    tensors = {"fc.weight": w["fc.weight"], "output_norm.weight": w["norm.weight"].astype(np.float32), "output.weight": w["lm_head.weight"],
               "d2t": w["d2t"] + np.arange(len(w["d2t"])), "blk.0.attn_q.weight": permuted(w[name + "self_attn.q_proj.weight"], 4),
               "blk.0.attn_k.weight": permuted(w[name + "self_attn.k_proj.weight"], 2)}
    for ours, theirs in names.items():
        tensors[f"blk.0.{theirs}.weight"] = w[f"{name}{ours}.weight"]
    for ours, theirs in norms.items():
        tensors[f"blk.0.{theirs}.weight"] = w[f"{name}{ours}.weight"].astype(np.float32)
    write_gguf(path, tensors, {"general.architecture": "eagle3", "eagle3.target_layers": target_layers,
                               "eagle3.norm_before_residual": before,
                               "eagle3.attention.head_count": 4, "eagle3.attention.head_count_kv": 2, "eagle3.attention.key_length": 64,
                               "eagle3.rope.freq_base": 10000.0})


def floats(w):
    return {name: array.astype(np.float32) if array.dtype == np.float16 else array for name, array in w.items()}


def main():
    yamata, probe, source = sys.argv[1:4]
    with tempfile.TemporaryDirectory() as folder:
        c = Comparison(yamata, probe, source, folder)
        models = os.path.join(source, "models")
        medusa, dgf = (os.path.join(models, f"tales-{name}.safetensors") for name in ("medusa", "dgf"))
        c.compare("medusa", Medusa(read_safetensors(medusa), c.target), medusa, ["last"], 4, "stored", rates=[.64, .54, .46, .40])
        c.compare("medusa", Medusa(read_safetensors(medusa), c.target), medusa, ["last"], 4, "q8_0", least=.97)
        shared = {name: array.astype(np.float16) for name, array in read_safetensors(medusa).items() if not name.endswith(".1.weight")}
        path = os.path.join(folder, "medusa-shared.safetensors")
        write_safetensors(path, shared)
        # The target's output is Q8_0, so its input is rounded to 8 bits.
        c.compare("medusa, the target's output", Medusa(floats(shared), c.target), path, ["last"], 4, "stored", least=.98)
        c.compare("dgf", Dgf(read_safetensors(dgf), c.target, 64, interleaved=True), dgf, ["last"], 4, "stored", rates=[.68])
        c.compare("dgf", Dgf(read_safetensors(dgf), c.target, 64, interleaved=True), dgf, ["last"], 4, "q8_0", least=.97)
        rng = np.random.default_rng(26)
        dim, vocabulary = 256, 4096
        eagle = random_head(rng, False, dim, 4, 2, 64, 320, "layers.0.")
        eagle["fc.weight"] = (rng.standard_normal((dim, 2 * dim)) / np.sqrt(2 * dim)).astype(np.float16)
        eagle["fc.bias"] = (0.1 * rng.standard_normal(dim)).astype(np.float16)
        path = os.path.join(folder, "eagle.safetensors")
        write_safetensors(path, eagle)
        c.compare("eagle, random", Eagle(floats(eagle), c.target, 64), path, ["last"], 3, "stored", least=.98)
        for name, before in (("midlayer.", False), ("layers.0.", True)):
            w = random_head(rng, True, dim, 4, 2, 64, 320, name)
            w["fc.weight"] = (rng.standard_normal((dim, 3 * dim)) / np.sqrt(3 * dim)).astype(np.float16)
            w["norm.weight"] = (1 + 0.2 * rng.standard_normal(dim)).astype(np.float16)
            w["lm_head.weight"] = (rng.standard_normal((500, dim)) / np.sqrt(dim)).astype(np.float16)
            w["d2t"] = (np.sort(rng.choice(vocabulary, 500, replace=False)) - np.arange(500)).astype(np.int64)
            own = os.path.join(folder, "eagle3-" + name[:3])
            os.mkdir(own)
            path = os.path.join(own, "model.safetensors")
            write_safetensors(path, w)
            open(os.path.join(own, "config.json"), "w").write(json.dumps({"norm_before_residual": before, "head_dim": 64}))
            model = Eagle3(floats(w), c.target, 64)
            model.norm_before_residual = before
            c.compare(f"eagle3, random, {name}", model, own, ["2", "4", "5"], 3, "stored")
            gguf = os.path.join(folder, f"eagle3-{before}.gguf")
            eagle3_gguf(gguf, w, name, [2, 4, 5], before)
            c.compare(f"eagle3, random, {name} as GGUF", model, gguf, ["2", "4", "5"], 3, "stored")
        sys.exit(c.failed)


main()
