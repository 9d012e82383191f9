"""measure_quantized.py WRITER FOLLOWER YAMATA [VARIANT...]: how far the probabilities of quantized files are from llama.cpp's.

WRITER is the program write_tiny_model, FOLLOWER follow_text. A small model whose rows are whole blocks of every format is quantized by
`yamata quantize`; llama.cpp writes a text with the file, and Yamata follows it. Prints a row of a table per family: for each type the median
and the 99th percentile of the differences between the logarithms of probabilities of the tokens that both have among their ten best.
"""

import statistics
import subprocess
import sys
import tempfile

from ask_llama_cpp import ask, lines

KINDS = ["Q4_K_M", "Q6_K", "Q8_0"]
VARIANTS = ["llama", "qwen3", "gemma2", "mixtral", "deepseek2"]


def differences(model, folder, follower, prompt):
    steps = ask(model, prompt)
    text = f"{folder}/steps.txt"
    with open(text, "w", encoding="utf-8") as file:
        file.write("\n".join(lines(steps, "", "")) + "\n")
    followed = subprocess.run([follower, model, text], check=True, capture_output=True, text=True).stdout.splitlines()
    for (_, best), line in zip(steps, followed, strict=True):
        own = dict((int(i), float(v)) for i, v in (pair.split(":") for pair in line.split()[1:]))
        yield from (abs(own[i] - value) for i, value in best if i in own)


def main():
    writer, follower, yamata, variants = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:]
    run = lambda *words: subprocess.run(words, check=True, capture_output=True, text=True).stdout
    prompt = [int(word) for word in run(writer, "--prompt").split()]
    print("| family | " + " | ".join(f"`{kind}`" for kind in KINDS) + " |\n|---|" + "---|" * len(KINDS))
    with tempfile.TemporaryDirectory() as folder:
        for variant in variants or VARIANTS:
            plain, small = f"{folder}/plain.gguf", f"{folder}/small.gguf"
            run(writer, variant + "-wide", "F32", plain)
            cells = []
            for kind in KINDS:
                run(yamata, "quantize", plain, small, kind)
                found = sorted(differences(small, folder, follower, prompt))
                cells.append(f"{statistics.median(found):.4f}, {found[len(found) * 99 // 100]:.3f}")
            print(f"| {variant} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
