"""check_tekken.py PROBE [--texts N]: compares the pre-tokenizer tekken with the package mistral-common, which has Mistral's vocabulary.

PROBE is the program pre_tokenizer_probe. The texts are those of ask_llama_cpp.py. Exit code 77: a package is missing.
"""

import argparse
import base64
import json
import pathlib
import random
import struct
import sys
import tempfile

try:
    import mistral_common
    from mistral_common.tokens.tokenizers.tekken import Tekkenizer
except ImportError as error:
    print(f"skipped: {error}; pip install mistral-common")
    sys.exit(77)

sys.dont_write_bytecode = True
from ask_llama_cpp import FIXED, Probe, random_text  # noqa: E402

STRING, ARRAY, I32, U32 = 8, 9, 5, 4


def byte_texts():
    plain = [b for b in range(256) if 0x20 < b < 0x7f or (b > 0xa0 and b != 0xad)]
    others = iter(range(0x100, 0x200))
    return [chr(b) if b in plain else chr(next(others)) for b in range(256)]


def text(value):
    return struct.pack("<Q", len(value.encode())) + value.encode()


def array(kind, values):
    return struct.pack("<IIQ", ARRAY, kind, len(values)) + b"".join(values)


def write(path, tokens, kinds, merges):
    pairs = {"general.architecture": struct.pack("<I", STRING) + text("llama"),
             "tokenizer.ggml.model": struct.pack("<I", STRING) + text("gpt2"),
             "tokenizer.ggml.pre": struct.pack("<I", STRING) + text("tekken"),
             "tokenizer.ggml.tokens": array(STRING, list(map(text, tokens))),
             "tokenizer.ggml.token_type": array(I32, [struct.pack("<i", kind) for kind in kinds]),
             "tokenizer.ggml.merges": array(STRING, list(map(text, merges)))}
    with open(path, "wb") as file:
        file.write(b"GGUF" + struct.pack("<IQQ", 3, 0, len(pairs)))
        for key, value in pairs.items():
            file.write(text(key) + value)


def last_merge(ranks, token, rank):
    """The two parts of a token that its last merge joins."""
    parts = [bytes([b]) for b in token]
    while len(parts) > 2:
        best = min(range(len(parts) - 1), key=lambda i: ranks.get(parts[i] + parts[i + 1], rank))
        if ranks.get(parts[best] + parts[best + 1], rank) >= rank:
            return None
        parts[best:best + 2] = [parts[best] + parts[best + 1]]
    return parts


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("probe")
    parser.add_argument("--texts", type=int, default=2000)
    given = parser.parse_args()
    path = pathlib.Path(mistral_common.__file__).parent / "data" / "tekken_240911.json"
    published, reference = json.loads(path.read_text()), Tekkenizer.from_file(path)
    special = published["config"]["default_num_special_tokens"]
    entries = published["vocab"][:published["config"]["default_vocab_size"] - special]
    ranks = {base64.b64decode(entry["token_bytes"]): entry["rank"] for entry in entries}
    shown = byte_texts()
    show = lambda token: "".join(shown[b] for b in token)  # noqa: E731
    merges = [last_merge(ranks, token, rank) for token, rank in ranks.items() if len(token) > 1]
    rng = random.Random(1)
    texts = FIXED + [random_text(rng) for _ in range(given.texts)]
    with tempfile.TemporaryDirectory() as folder:
        model = f"{folder}/tekken.gguf"
        write(model, [f"<SPECIAL_{i}>" for i in range(special)] + [show(token) for token in ranks], [3] * special + [1] * len(ranks),
              [f"{show(pair[0])} {show(pair[1])}" for pair in merges if pair])
        ours = Probe(given.probe).encode(model, texts)
    wrong = [(value, own) for value, own in zip(texts, ours) if own != reference.encode(value, bos=False, eos=False)]
    print(f"tekken: {len(texts) - len(wrong)} of {len(texts)} texts as mistral-common")
    for value, own in wrong[:5]:
        print(f"{ascii(value)}\n  Yamata {own}\n  right  {reference.encode(value, bos=False, eos=False)}")
    return len(wrong) > 0


if __name__ == "__main__":
    sys.exit(main())
