"""ask_llama_cpp.py WRITER [VARIANT...]: writes llama.cpp's results (package xllamacpp) for small models into the folder expected/.

WRITER is the program write_tiny_model. Each variant is used with F32 and with F16 weights. A file has the most probable text of 64 tokens
after the prompt, with a line per token: the chosen token, then "id:logarithm of the probability" of the ten best. On the CPU, with an F32
cache.
"""

import importlib.metadata
import pathlib
import subprocess
import sys
import tempfile

import xllamacpp

STEPS = 64
BEST = 10
FOLDER = pathlib.Path(__file__).parent / "expected"


def parameters(model):
    p = xllamacpp.CommonParams()
    p.model.path = model
    p.n_ctx = 512
    p.n_gpu_layers = 0
    p.n_parallel = 1
    p.warmup = False
    p.fit_params = False
    p.verbosity = 2
    p.cpuparams.n_threads = 2
    p.cache_type_k = p.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
    p.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
    return p


def ask(model, prompt):
    server = xllamacpp.Server(parameters(model))
    answer = server.handle_completions(
        {"prompt": prompt, "n_predict": STEPS, "temperature": 0, "logprobs": BEST, "cache_prompt": False})
    steps = answer["choices"][0]["logprobs"]["content"]
    if len(steps) != STEPS:
        sys.exit(f"{model}: the text ends after {len(steps)} tokens; give it another prompt")
    return [(s["id"], [(b["id"], b["logprob"]) for b in s["top_logprobs"]]) for s in steps]


def lines(steps, variant, kind):
    version = importlib.metadata.version("xllamacpp")
    yield f"# {variant}, {kind} weights; xllamacpp {version}"
    for token, best in steps:
        yield f"{token} " + " ".join(f"{i}:{value:.5f}" for i, value in best)


def main():
    writer, variants = sys.argv[1], sys.argv[2:]
    run = lambda *words: subprocess.run([writer, *words], check=True, capture_output=True, text=True).stdout.split()
    prompt = [int(word) for word in run("--prompt")]
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        for variant in variants or run("--list"):
            for kind in ("F32", "F16"):
                model = f"{folder}/{variant}.gguf"
                # llama.cpp rounds activations to F16 if the weights are F16: so it gets the same values as F32.
                stored = "F32" if kind == "F32" else "F16-WIDENED"
                # llama.cpp no longer reads files of the oldest layout: the expected results are those of the newer layout with the same
                # weights.
                run(variant.removesuffix("-single"), stored, model)
                steps = ask(model, prompt)
                (FOLDER / f"{variant}-{kind.lower()}.txt").write_text("\n".join(lines(steps, variant, kind)) + "\n")
                distinct = len({token for token, _ in steps})
                print(f"{variant} {kind}: {distinct} different tokens, the best has {sum(b[0][1] for _, b in steps) / STEPS:.2f} on "
                      "average")


if __name__ == "__main__":
    main()
