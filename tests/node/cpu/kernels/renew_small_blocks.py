"""renew_small_blocks.py: writes random blocks of the table-based formats, and the package gguf's results for them, into small_blocks.hpp.

A block's floats are stored as the FNV-1a hash of their bits. Needs the Python packages gguf and numpy.
"""

import pathlib

import gguf
import numpy

BLOCKS = 4
TYPES = ["MXFP4", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ1_S", "IQ1_M", "TQ1_0", "TQ2_0"]
HALVES = {"TQ1_0": 52, "TQ2_0": 64, "MXFP4": None, "IQ1_M": None}  # offset of the half float d; 0 in the others


def hashed(floats):
    value = 0xcbf29ce484222325
    for byte in floats.astype("<f4").tobytes():
        value = (value ^ byte) * 0x100000001b3 & 0xffffffffffffffff
    return value


def rows():
    random = numpy.random.default_rng(28)
    for name in TYPES:
        kind = gguf.GGMLQuantizationType[name]
        size = gguf.GGML_QUANT_SIZES[kind][1]
        for i in range(BLOCKS):
            block = random.integers(0, 256, size, dtype=numpy.uint8)
            at = HALVES.get(name, 0)
            if at is not None:
                block[at:at + 2] = numpy.array([random.normal(0, 0.1)], dtype="<f2").view(numpy.uint8)
            if name == "MXFP4":
                block[0] = [0, 1, 2, 126][i]
            if name == "IQ1_M":
                block[55] = block[55] & 0x0f | 0x20
            yield f'    {{TensorType::{name}, "{block.tobytes().hex()}", 0x{hashed(gguf.quants.dequantize(block, kind)):016x}u}},'


HEADER = """#pragma once
// Random blocks, and the hash of the floats they stand for as Python's package gguf says: renew_small_blocks.py writes this.
#include <cstdint>

#include "node/tensor_type.hpp"

namespace yamata::cpu {

struct SmallBlock {
  TensorType type;
  const char* bytes;  ///< hexadecimal
  std::uint64_t hash;
};

// clang-format off
inline constexpr SmallBlock kSmallBlocks[] = {
"""

text = HEADER + "\n".join(rows()) + "\n};\n// clang-format on\n\n}  // namespace yamata::cpu\n"
(pathlib.Path(__file__).parent / "small_blocks.hpp").write_text(text)
