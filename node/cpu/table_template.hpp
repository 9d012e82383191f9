#pragma once
// The table of one instruction set, over the vector layer included before this.
#include "node/cpu/matmul_template.hpp"
#include "node/cpu/ops_template.hpp"

namespace yamata::cpu {
namespace {

constexpr KernelTable make_table(Isa isa) {
  KernelTable t{isa, {}, quantize, rms_norm, silu_mul, attention};
  t.matmul[static_cast<int>(TensorType::F32)] = matmul<FloatTile<WeightsF32>>;
  t.matmul[static_cast<int>(TensorType::F16)] = matmul<FloatTile<WeightsF16>>;
  t.matmul[static_cast<int>(TensorType::BF16)] = matmul<FloatTile<WeightsBF16>>;
  t.matmul[static_cast<int>(TensorType::Q4_0)] = matmul<QuantizedTile<FormatQ4_0>>;
  t.matmul[static_cast<int>(TensorType::Q4_1)] = matmul<QuantizedTile<FormatQ4_1>>;
  t.matmul[static_cast<int>(TensorType::Q5_0)] = matmul<QuantizedTile<FormatQ5_0>>;
  t.matmul[static_cast<int>(TensorType::Q5_1)] = matmul<QuantizedTile<FormatQ5_1>>;
  t.matmul[static_cast<int>(TensorType::Q8_0)] = matmul<QuantizedTile<FormatQ8_0>>;
  t.matmul[static_cast<int>(TensorType::Q2_K)] = matmul<QuantizedTile<FormatQ2K>>;
  t.matmul[static_cast<int>(TensorType::Q3_K)] = matmul<QuantizedTile<FormatQ3K>>;
  t.matmul[static_cast<int>(TensorType::Q4_K)] = matmul<QuantizedTile<FormatQ4K>>;
  t.matmul[static_cast<int>(TensorType::Q5_K)] = matmul<QuantizedTile<FormatQ5K>>;
  t.matmul[static_cast<int>(TensorType::Q6_K)] = matmul<QuantizedTile<FormatQ6K>>;
  t.matmul[static_cast<int>(TensorType::IQ4_NL)] = matmul<QuantizedTile<FormatIQ4NL>>;
  t.matmul[static_cast<int>(TensorType::IQ4_XS)] = matmul<QuantizedTile<FormatIQ4XS>>;
  return t;
}

}  // namespace
}  // namespace yamata::cpu
