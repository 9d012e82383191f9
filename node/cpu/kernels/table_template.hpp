#pragma once
// The table of kernels of one instruction set. Uses its vector layer and its product with quantized weights, which were included before
// this.
#include "node/cpu/kernels/attention_template.hpp"
#include "node/cpu/kernels/blocks.hpp"
#include "node/cpu/kernels/float_matmul_template.hpp"
#include "node/cpu/kernels/index_template.hpp"
#include "node/cpu/kernels/ops_template.hpp"

namespace yamata::cpu {
namespace {

constexpr KernelTable make_table(Isa isa) {
  KernelTable t{isa,       kRows,    kTileColumns, {},        quantize,        encode_blocks,    decode_blocks, block_squares, inverse_rms,
                scale_mul, activate, exponentials, attention, merge_attention, finish_attention, store_cell,    index_scores};
  t.matmul[static_cast<int>(TensorType::F32)] = matmul_floats<WeightsF32>;
  t.matmul[static_cast<int>(TensorType::F16)] = matmul_floats<WeightsF16>;
  t.matmul[static_cast<int>(TensorType::BF16)] = matmul_floats<WeightsBF16>;
  t.matmul[static_cast<int>(TensorType::Q4_0)] = matmul<BlockQ4_0>;
  t.matmul[static_cast<int>(TensorType::Q4_1)] = matmul<BlockQ4_1>;
  t.matmul[static_cast<int>(TensorType::Q5_0)] = matmul<BlockQ5_0>;
  t.matmul[static_cast<int>(TensorType::Q5_1)] = matmul<BlockQ5_1>;
  t.matmul[static_cast<int>(TensorType::Q8_0)] = matmul<BlockQ8_0>;
  t.matmul[static_cast<int>(TensorType::Q2_K)] = matmul<BlockQ2K>;
  t.matmul[static_cast<int>(TensorType::Q3_K)] = matmul<BlockQ3K>;
  t.matmul[static_cast<int>(TensorType::Q4_K)] = matmul<BlockQ4K>;
  t.matmul[static_cast<int>(TensorType::Q5_K)] = matmul<BlockQ5K>;
  t.matmul[static_cast<int>(TensorType::Q6_K)] = matmul<BlockQ6K>;
  t.matmul[static_cast<int>(TensorType::IQ4_NL)] = matmul<BlockIQ4NL>;
  t.matmul[static_cast<int>(TensorType::IQ4_XS)] = matmul<BlockIQ4XS>;
  t.matmul[static_cast<int>(TensorType::MXFP4)] = matmul<BlockMXFP4>;
  t.matmul[static_cast<int>(TensorType::IQ2_XXS)] = matmul<BlockIQ2XXS>;
  t.matmul[static_cast<int>(TensorType::IQ2_XS)] = matmul<BlockIQ2XS>;
  t.matmul[static_cast<int>(TensorType::IQ2_S)] = matmul<BlockIQ2S>;
  t.matmul[static_cast<int>(TensorType::IQ3_XXS)] = matmul<BlockIQ3XXS>;
  t.matmul[static_cast<int>(TensorType::IQ3_S)] = matmul<BlockIQ3S>;
  t.matmul[static_cast<int>(TensorType::IQ1_S)] = matmul<BlockIQ1S>;
  t.matmul[static_cast<int>(TensorType::IQ1_M)] = matmul<BlockIQ1M>;
  t.matmul[static_cast<int>(TensorType::TQ1_0)] = matmul<BlockTQ1_0>;
  t.matmul[static_cast<int>(TensorType::TQ2_0)] = matmul<BlockTQ2_0>;
  return t;
}

}  // namespace
}  // namespace yamata::cpu
