"""ask_llama_cpp.py PROBE [--texts N] [--seed N] [--renew] [NAME...]: compares pre-tokenizers with llama.cpp's.

PROBE is the program pre_tokenizer_probe. For every name, or the given ones, N random texts (default: 300) are split by Yamata and by
llama.cpp (package xllamacpp), with a made-up vocabulary whose ids show where. For those in PUBLISHED, llama.cpp approximates the
publisher's pattern: the ids must be those of that pattern in Python's package `regex`, and the script prints for how many texts llama.cpp
has them, too. --renew writes the ids of fixed texts into expected/pre_tokenizers.txt. Exit code 77: a package is missing.
"""

import argparse
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import unicodedata
import urllib.request

try:
    import regex
    import xllamacpp
except ImportError as error:
    print(f"skipped: {error}; pip install xllamacpp regex")
    sys.exit(77)

FOLDER = pathlib.Path(__file__).parent / "expected"

CASED = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+ENDING"
         r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*ENDING")
ENDING = "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
SPACES = r"|\s*[\r\n]+|\s+(?!\S)|\s+"
O200K = CASED.replace("ENDING", ENDING) + r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*" + SPACES
YOUTU = (r"[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+",
         O200K.replace("{1,3}", ""))
LETTERS = ("A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af\u0370-\u0373\u0376\u0377"
           "\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5\u03f7-\u0481\u048a-\u052f\u0531-\u0556\u10a0-"
           "\u10c5\u13a0-\u13f5\u13f8-\u13fd\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77\u1d79-\u1d9a\u1e00-\u1f15\u1f18-"
           "\u1f1d\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe\u1fc2-"
           "\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-\u1ffc\u2102\u2107\u210a-\u2113\u2115"
           "\u2119-\u211d\u2124\u2126\u2128\u212a-\u212d\u212f-\u2134\u2139\u213c-\u213f\u2145-\u2149\u214e\u2183\u2184\u2c00-"
           "\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee\u2cf2\u2cf3\ua640-\ua66d\ua680-\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-"
           "\uabbf\ufb00-\ufb06\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a\U00010400-\U0001044f\U000104b0-\U000104d3\U000104d8-"
           "\U000104fb\U00010c80-\U00010cb2\U00010cc0-\U00010cf2\U000118a0-\U000118df\U0001e900-\U0001e943")
IDEOGRAPHS = "[一-龥ࠀ-一가-\ud7ff]+"
LLAMA3 = r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*" + SPACES
PUBLISHED = {
    "glm4": (LLAMA3,),
    "deepseek-llm": ("[\r\n]", r"\s?[" + LETTERS + "]+", r"\s?[!-/:-~！-／：-～‘-‟\u3000-。]+", r"\s+$", IDEOGRAPHS, r"\p{N}+"),
    "deepseek-coder": ("[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", IDEOGRAPHS, r"\p{N}"),
    "gpt-4o": (O200K,),
    "tekken": (CASED.replace("ENDING", "") + r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*" + SPACES,),
    "granite-embed-multi-97m": (O200K,),
    "kimi-k2": (r"[\p{Han}]+|" + CASED.replace(r"\p{M}]", r"\p{M}&&[^\p{Han}]]").replace("ENDING", ENDING) +
                r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*" + SPACES,),
    "youtu": YOUTU,
    "tiny_aya": (r"\d{1,3}(?=(?:\d{3})*(?![\p{L}\p{M}\p{N}\p{Pc}\u24b6-\u24e9\U0001f130-\U0001f189]))", O200K),  # \b of Oniguruma
    "afmoe": (r"\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))",
              ("[\u4e00-\u9fff\u3400-\u4dbf\uf900-\ufaff\u3040-\u30ff\uff65-\uff9f\u2f00-\u2fdf\u0e40-\u0eff\u1780-\u17ff"
               "\u1000-\u109f\uaa60-\uaa7f\ua9e0-\ua9ff\uac00-\ud7af\u1100-\u11ff]+"),
              r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*" + SPACES),
    "superbpe": (r"\p{N}+", r"(?=(?:\d{3})+(?!\d))"),
}

WHOLE = ("tekken", "youtu", "granite-embed-multi-97m", "glm4")

WORDS = ["hello", "World", "HTTPServer", "camelCase", "whole", "a", "I", "x1", "don", "Straße", "naïve", "Ελλάδα",
         "ΣΟΦΙΑ", "Привет", "МИР", "Ǆungla", "ǅ", "ʰa", "שלום", "مرحبا", "हिन्दी", "ไทย", "ქართული", "漢字", "日本語テスト",
         "ひらがな", "カタカナ", "한국어", "々", "⺀", "〇", "cafe\u0301", "\u0301", "ª", "ﬁn", "𐐀𐐨", "中文abc", "abc中文DEF"]
NUMBERS = ["1", "12", "123", "1234", "1234567", "3.14", "١٢٣٤", "१२३४५", "½", "²", "Ⅷ", "１２３", "9²9"]
SIGNS = [".", ",", "!", "?!", "...", "(", ")", "()", "\"", "'", "''", "-", "--", "/", "//", "_", "$", "+", "<=>", "^",
         "`", "~", "|", "[x]", ":", "。", "，", "、", "！", "「", "」", "…", "—", "“", "’", "।", "€", "→", "∑", "©", "😀",
         "👩‍👩‍👧", "🏳️‍🌈", "🇩🇪", "1️⃣"]
ENDINGS = ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d", "'S", "'LL", "'Re", "’s", "'x", "'l", "'r"]
SPACE = [" ", " ", " ", "  ", "   ", "    ", "\t", "\n", "\n\n", "\r\n", " \n", "\n ", "\n\n\n", "\u00a0", "\u3000",
         "\u2028", "\u0085", "\u1680", "\u2003", "\u202f", " \t ", "\v", "\f"]
OTHERS = ["\u0001", "\u001f", "\u007f", "\u200b", "\ufeff", "\u00ad", "\u180e", "\ue000", "\ufffd", "\u0378", "\u200d",
          "\u2060", "<sentinel:12>", "IMGIMGABZ", "    "]
FIXED = ["Hello, World! It's 12345 o'clock.", "We'LL don't  can've\tI'm\r\n\r\n  x",
         "camelCase HTTPServer iPhone ABC's/\n", "1234567 ½² Ⅷ १२३४५ ١٢٣ 9²99", "漢字とカタカナ、한국어。中文abc",
         "Привет МИР Ελλάδα ǅ ʰa", "हिन्दी ไทย cafe\u0301 \u0301x", "😀 👩‍👩‍👧!🇩🇪\n\n\n",
         "a\u00a0b\u3000c\u2028d \u180e x", "f(x) <= $3.14 + `y`~z|w^2 _q_", " whole  whole", "   \n \t\n",
         "x\u200b\u00ad\ue000\u0378y"]


def random_text(rng):
    text = ""
    for _ in range(rng.randint(1, 14)):
        if rng.random() < 0.08:
            while unicodedata.category(code := chr(rng.randrange(0x110000))) in ("Cs", "Cn"):
                pass
            text += code
        else:
            kind = rng.choices([WORDS, NUMBERS, SIGNS, ENDINGS, SPACE, OTHERS], [6, 4, 4, 2, 7, 1])[0]
            text += rng.choice(kind) * rng.choice([1, 1, 1, 1, 2, 3])
    return text


class Probe:
    def __init__(self, program):
        self.program = program
        pairs = [tuple(map(int, line.split())) for line in self.run("merges").splitlines()]
        self.ranks = {pair: rank for rank, pair in enumerate(pairs)}

    def run(self, *words, text=None):
        return subprocess.run([self.program, *words], check=True, capture_output=True, text=True, input=text).stdout

    def encode(self, model, texts):
        lines = self.run("encode", model, text="".join(text.encode().hex() + "\n" for text in texts)).split("\n")
        return [list(map(int, line.split())) for line in lines[:len(texts)]]

    def merge(self, piece):
        """The ids of one piece: pairs of bytes, lowest rank first, of which none merges again."""
        data = piece.encode()
        ids, taken = {}, set()
        for rank, at in sorted((self.ranks[pair], at) for at, pair in enumerate(zip(data, data[1:])) if pair in self.ranks):
            if at not in taken and at + 1 not in taken:
                taken |= {at, at + 1}
                ids[at] = 256 + rank
        return [ids.get(at, byte) for at, byte in enumerate(data) if at not in taken or at in ids]

    def whole(self, piece):
        return [256 + len(self.ranks)] if piece == " whole" else self.merge(piece)


def split(patterns, text):
    pieces = [text]
    for pattern in patterns:
        finer = []
        for piece in pieces:
            done = 0
            for match in regex.finditer(pattern, piece, regex.V1):
                finer += [piece[done:match.start()], piece[match.start():match.end()]]
                done = match.end()
            finer.append(piece[done:])
        pieces = [piece for piece in finer if piece]
    return pieces


def ask(model, texts):
    p = xllamacpp.CommonParams()
    p.model.path, p.n_ctx, p.n_parallel, p.n_gpu_layers, p.warmup, p.verbosity, p.fit_params = model, 64, 1, 0, False, -1, False
    server = xllamacpp.Server(p)

    def one(text):
        body = json.dumps({"content": text, "add_special": False, "parse_special": False}).encode()
        request = urllib.request.Request(server.listening_address + "/tokenize", body, {"Content-Type": "application/json"})
        return json.loads(urllib.request.urlopen(request).read())["tokens"]
    return [one(text) for text in texts]


def compare(probe, name, first, model, texts):
    """The number of texts that llama.cpp splits in another way, and a line for every fault."""
    ours, theirs = probe.encode(model, texts), ask(model, texts)
    published = PUBLISHED.get(first)
    merge = probe.whole if first in WHOLE else probe.merge
    others, faults = 0, []
    for text, own, other in zip(texts, ours, theirs):
        others += own != other
        right = [i for piece in split(published, text) for i in merge(piece)] if published else other
        if own != right:
            faults.append(f"{name}: {ascii(text)}\n  Yamata {own}\n  right  {right}")
    return others, faults


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("probe")
    parser.add_argument("--texts", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--renew", action="store_true")
    parser.add_argument("--faults", type=int, default=3)
    parser.add_argument("names", nargs="*")
    given = parser.parse_intermixed_args()
    probe = Probe(given.probe)
    rng = random.Random(given.seed)
    texts = FIXED + [random_text(rng) for _ in range(given.texts)]
    expected = [f"text {text.encode().hex()} {ascii(text)}" for text in FIXED]
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for row in probe.run("names").splitlines():
            names = row.split()
            for name in names:
                if given.names and name not in given.names:
                    continue
                model = f"{folder}/{name}.gguf"
                probe.run("write", name, model)
                others, faults = compare(probe, name, names[0], model, texts)
                failed += len(faults)
                print(f"{name}: {len(texts) - others} of {len(texts)} texts as llama.cpp, {len(faults)} faults", flush=True)
                print("\n".join(faults[:given.faults]), flush=True)
                if name == names[0]:
                    expected.append("names " + row)
                    expected += [" ".join(["ids", *map(str, ids)]) for ids in probe.encode(model, FIXED)]
                pathlib.Path(model).unlink()
    if given.renew:
        FOLDER.mkdir(exist_ok=True)
        (FOLDER / "pre_tokenizers.txt").write_text("\n".join(expected) + "\n")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
