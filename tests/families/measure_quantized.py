"""measure_quantized.py WRITER FOLLOWER YAMATA [VARIANT or FILE...]: compares the probabilities of quantized models with llama.cpp's.

WRITER is the program write_tiny_model, FOLLOWER follow_text. A model (a small one with random weights, or a file) is quantized by `yamata
quantize`. llama.cpp generates a text with it, and Yamata computes the probabilities of that text: with the quantized model, and with the
same weights as F32. The latter rounds nothing to 8 bits: the exact result. Prints a table with a row per model. Its columns are, for each
type, medians of the differences between the logarithms of probabilities, over the tokens that both have among their ten best: Yamata and
llama.cpp, Yamata and the exact result, llama.cpp and the exact result.
"""

import statistics
import subprocess
import sys
import tempfile

from ask_llama_cpp import ask, lines

KINDS = ["Q4_K_M", "Q6_K", "Q8_0"]
VARIANTS = ["llama", "qwen3", "gemma2", "mixtral", "deepseek2"]


def run(*words):
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def follow(follower, model, text):
    """The ten best tokens of each step, as a dictionary."""
    for line in run(follower, model, text).splitlines():
        yield {int(i): float(v) for i, v in (pair.split(":") for pair in line.split()[1:])}


def median(some, others):
    return statistics.median(abs(a[i] - b[i]) for a, b in zip(some, others, strict=True) for i in a if i in b)


def measure(folder, follower, yamata, model, prompt):
    steps = ask(model, prompt)
    text, exact = f"{folder}/steps.txt", f"{folder}/exact.gguf"
    with open(text, "w", encoding="utf-8") as file:
        file.write("\n".join(lines(steps, "", "")) + "\n")
    run(yamata, "quantize", "--allow-requantize", model, exact, "F32")
    theirs, own = [dict(best) for _, best in steps], list(follow(follower, model, text))
    right = list(follow(follower, exact, text))
    return f"{median(own, theirs):.4f} ({median(own, right):.4f}, {median(theirs, right):.4f})"


def main():
    writer, follower, yamata, models = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:]
    prompt = [int(word) for word in run(writer, "--prompt").split()]
    print("| model | " + " | ".join(f"`{kind}`" for kind in KINDS) + " |\n|---|" + "---|" * len(KINDS))
    with tempfile.TemporaryDirectory() as folder:
        for name in models or VARIANTS:
            plain, small = name, f"{folder}/small.gguf"
            if not name.endswith(".gguf"):
                plain = f"{folder}/plain.gguf"
                run(writer, name + "-wide", "F32", plain)
            cells = []
            for kind in KINDS:
                run(yamata, "quantize", "--allow-requantize", plain, small, kind)
                cells.append(measure(folder, follower, yamata, small, prompt))
            print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
