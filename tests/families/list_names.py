#!/usr/bin/env python3
"""Writes known_names.txt: the metadata keys and the tensors of our families that PyPI's `gguf` names (pip install gguf).

A line is `key NAME`, without the family's name, or `tensor FAMILY NAME`, of the first layer, without an ending."""
import importlib.metadata
import pathlib
import re

import gguf.constants as names

HERE = pathlib.Path(__file__).resolve().parent
ROWS = re.findall(r'^    \{"([^"]+)", ', (HERE.parents[1] / 'src/model/family.cpp').read_text(), re.MULTILINE)

OLDER = {'rope.scale_linear'}  # which llama.cpp reads, and `gguf` no longer names


def keys(group):
    for name, value in vars(group).items():
        if isinstance(value, type):
            yield from keys(value)
        elif not name.startswith('_') and isinstance(value, str):
            yield value


def main():
    found = {key.removeprefix('{arch}.') for key in keys(names.Keys) if key.startswith('{arch}.') and '{dense}' not in key}
    lines = ["# of gguf " + importlib.metadata.version("gguf")]
    lines += ['key ' + key for key in sorted(found | OLDER)]
    lines += ['key ' + key.format(name='rag') for key in sorted(set(keys(names.Keys))) if key.startswith('tokenizer.')]
    by_name = {text: arch for arch, text in names.MODEL_ARCH_NAMES.items()}
    for family in ROWS:
        tensors = {names.TENSOR_NAMES[tensor].format(bid=0) for tensor in names.MODEL_TENSORS[by_name[family]]}
        lines += [f'tensor {family} {tensor}' for tensor in sorted(tensors)]
    (HERE / 'known_names.txt').write_text('\n'.join(lines) + '\n')


main()
