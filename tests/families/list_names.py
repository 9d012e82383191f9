#!/usr/bin/env python3
"""list_names.py LLAMA_CPP: writes known_names.txt: the metadata keys and tensors of our families that llama.cpp's loader or PyPI's `gguf`
names (pip install gguf).

LLAMA_CPP is the source of the llama.cpp that the tests' expected results are of. `pip download --no-deps --no-binary xllamacpp
xllamacpp==VERSION` gets it, as thirdparty/llama.cpp in the archive. A line is `key NAME`, without the family's name, or `tensor FAMILY
NAME`, of the first layer, without an ending."""
import importlib.metadata
import pathlib
import re
import sys

import gguf.constants as names

HERE = pathlib.Path(__file__).resolve().parent
ROWS = re.findall(r'^    \{"([^"]+)", ', (HERE.parents[1] / 'src/model/family.cpp').read_text(), re.MULTILINE)


def keys(group):
    for name, value in vars(group).items():
        if isinstance(value, type):
            yield from keys(value)
        elif not name.startswith('_') and isinstance(value, str):
            yield value


class Loader:
    """The names in llama.cpp's loader."""

    def __init__(self, source):
        self.folder = pathlib.Path(source) / 'src'
        arch = (self.folder / 'llama-arch.cpp').read_text()
        self.families = {text: name for name, text in re.findall(r'\{ *LLM_ARCH_(\w+), *"([^"]+)" *\}', arch)}
        self.keys = {text for text in re.findall(r'\{ *LLM_KV_\w+, *"([^"]+)" *\}', arch)}
        self.tensors = dict(re.findall(r'\{ *LLM_TENSOR_(\w+), *"([^"]+)" *\}', arch))
        self.model = (self.folder / 'llama-model.cpp').read_text()
        self.classes = dict(re.findall(r'case LLM_ARCH_(\w+):\s+return new (\w+)\(params\)', self.model))
        self.bases = dict(re.findall(r'^struct (\w+) : public (\w+)', (self.folder / 'models/models.h').read_text(), re.MULTILINE))
        self.sources = {}
        for path in sorted((self.folder / 'models').glob('*.cpp')):
            text = path.read_text()
            for name in re.findall(r'^void (\w+)::load_arch_tensors\(', text, re.MULTILINE):
                self.sources[name] = text

    def tensors_of(self, family):
        """Of the family's own loader, and of the functions that all share."""
        shared = '\n'.join(re.findall(r'^(?:void|bool) llama_model_base::(?:create_tensor_qkv|load_tensors)\(.*?^}', self.model,
                                      re.MULTILINE | re.DOTALL))
        model = self.classes[self.families[family]]
        while model not in self.sources:
            model = self.bases[model]
        used = re.findall(r'\btn\(LLM_TENSOR_(\w+)', self.sources[model])
        common = {'ATTN_Q', 'ATTN_K', 'ATTN_V', 'ATTN_QKV'} & set(re.findall(r'\btn\(LLM_TENSOR_(\w+)', shared))
        return {self.tensors[name].replace('%d', '0') for name in {*used, *common}}


def main():
    loader = Loader(sys.argv[1])
    all_keys = loader.keys | {key.replace('{arch}', '%s') for key in keys(names.Keys)}
    own = {key.removeprefix('%s.') for key in all_keys if key.startswith('%s.') and '{' not in key}
    general = {key.format(name='rag') for key in all_keys if key.startswith('tokenizer.')}
    lines = [f'# of gguf {importlib.metadata.version("gguf")} and of llama.cpp in {pathlib.Path(sys.argv[1]).resolve().parents[1].name}']
    lines += ['key ' + key for key in sorted(own)] + ['key ' + key for key in sorted(general)]
    by_name = {text: arch for arch, text in names.MODEL_ARCH_NAMES.items()}
    for family in ROWS:
        known = names.MODEL_TENSORS[by_name[family]] if family in by_name else []
        tensors = {names.TENSOR_NAMES[tensor].format(bid=0) for tensor in known}
        lines += [f'tensor {family} {tensor}' for tensor in sorted(tensors | loader.tensors_of(family))]
    (HERE / 'known_names.txt').write_text('\n'.join(lines) + '\n')


main()
