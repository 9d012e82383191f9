#include "tests/node/cpu/kernels/support.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "node/cpu/kernels/panel.hpp"
#include "node/cpu/kernels/repack.hpp"

#ifdef YAMATA_TEST_SIMDE
#define YAMATA_SIMDE
#include "node/cpu/kernels/tables.hpp"

namespace yamata::cpu {
extern const StateKernels simde_state_table_avx512, simde_state_table_neon;
}
#endif

namespace yamata::cpu {

std::vector<NamedTable> tables_under_test() {
  std::vector<NamedTable> tables;
  for (const Isa isa : {Isa::kAvx2, Isa::kAvxVnni, Isa::kAvx512, Isa::kNeon, Isa::kNeonDotprod, Isa::kNeonI8mm}) {
    if (isa_usable(isa)) tables.push_back({isa_name(isa), &kernels(isa)});
  }
#ifdef YAMATA_TEST_SIMDE
  if (isa_usable(Isa::kAvx2)) {  // the emulation is compiled for AVX2, whose fused multiply-add it needs
    tables.push_back({"simde-avx-vnni", &simde_table_avx_vnni});
    tables.push_back({"simde-avx512", &simde_table_avx512});
    tables.push_back({"simde-neon", &simde_table_neon});
    tables.push_back({"simde-neon-dotprod", &simde_table_neon_dotprod});
    tables.push_back({"simde-neon-i8mm", &simde_table_neon_i8mm});
  }
#endif
  return tables;
}

std::vector<NamedStateKernels> state_kernels_under_test() {
  std::vector<NamedStateKernels> tables;
  for (const Isa isa : {Isa::kAvx2, Isa::kAvx512, Isa::kNeon}) {
    if (isa_usable(isa)) tables.push_back({isa_name(isa), &state_kernels(isa)});
  }
#ifdef YAMATA_TEST_SIMDE
  if (isa_usable(Isa::kAvx2)) {
    tables.push_back({"simde-avx512", &simde_state_table_avx512});
    tables.push_back({"simde-neon", &simde_state_table_neon});
  }
#endif
  return tables;
}

std::vector<float> random_floats(Random& random, std::size_t n, float deviation) {
  std::normal_distribution<float> normal(0.0f, deviation);
  std::vector<float> values(n);
  for (float& value : values) value = normal(random);
  return values;
}

namespace {

/// Offsets of a block's half floats.
std::vector<std::size_t> half_offsets(TensorType type) {
  switch (type) {
    case TensorType::Q4_1:
    case TensorType::Q5_1:
    case TensorType::Q4_K:
    case TensorType::Q5_K:
      return {0, 2};
    case TensorType::Q2_K:
      return {80, 82};
    case TensorType::Q3_K:
      return {108};
    case TensorType::Q6_K:
      return {208};
    case TensorType::TQ1_0:
      return {52};
    case TensorType::TQ2_0:
      return {64};
    case TensorType::MXFP4:
    case TensorType::IQ1_M:
      return {};
    default:
      return {0};
  }
}

/// Begin and end of a block's numbers.
std::pair<std::ptrdiff_t, std::ptrdiff_t> number_bytes(TensorType type) {
  switch (type) {
    case TensorType::Q2_K:
      return {16, 80};
    case TensorType::Q3_K:
      return {0, 96};
    case TensorType::Q4_K:
    case TensorType::Q5_K:
      return {16, static_cast<std::ptrdiff_t>(traits(type).block_bytes)};
    case TensorType::Q6_K:
      return {0, 192};
    case TensorType::IQ4_XS:
      return {8, 136};
    case TensorType::MXFP4:
      return {1, 17};
    case TensorType::TQ1_0:
    case TensorType::TQ2_0:
    case TensorType::IQ1_M:
      return {0, 48};
    default:
      return {type == TensorType::Q4_1 || type == TensorType::Q5_1 ? 4 : 2, static_cast<std::ptrdiff_t>(traits(type).block_bytes)};
  }
}

}  // namespace

std::vector<std::byte> random_weights(Random& random, TensorType type, std::int64_t rows, std::int64_t cols) {
  const TypeTraits& t = traits(type);
  const std::size_t blocks = static_cast<std::size_t>(rows * cols / t.block_elements);
  std::vector<std::byte> data(blocks * t.block_bytes);
  std::normal_distribution<float> normal(0.0f, 0.1f);
  if (type == TensorType::F32) {
    const std::vector<float> values = random_floats(random, blocks, 0.1f);
    std::memcpy(data.data(), values.data(), data.size());
    return data;
  }
  for (std::byte& byte : data) byte = static_cast<std::byte>(random() & 255u);
  for (std::size_t b = 0; b < blocks; ++b) {
    for (const std::size_t offset : half_offsets(type)) {
      const float value = normal(random);
      const std::uint16_t half =
          type == TensorType::BF16 ? static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16) : f32_to_f16(value);
      std::memcpy(data.data() + b * t.block_bytes + offset, &half, sizeof half);
    }
    // Scales that are not half floats: powers of two near 1/8; the highest bits of d, which are in four places.
    std::byte* block = data.data() + b * t.block_bytes;
    if (type == TensorType::MXFP4) block[0] = static_cast<std::byte>(122 + random() % 6);
    if (type == TensorType::IQ1_M) block[55] = (block[55] & std::byte{0x0f}) | std::byte{0x20};
  }
  return data;
}

std::vector<std::byte> weights_of(std::byte numbers, Random& random, TensorType type, std::int64_t rows, std::int64_t cols) {
  const auto [begin, end] = number_bytes(type);
  std::vector<std::byte> data = random_weights(random, type, rows, cols);
  for (auto block = data.begin(); block != data.end(); block += static_cast<std::ptrdiff_t>(traits(type).block_bytes))
    std::fill(block + begin, block + end, numbers);
  return data;
}

Activations::Activations(const KernelTable& table, std::vector<float> input, std::int64_t count, std::int64_t cols)
    : x(std::move(input)), tokens(count), blocks(QuantizedRows::blocks_of(cols)), tile_columns(table.tile_columns) {
  data.resize(static_cast<std::size_t>(tokens * blocks * kActivationBlockBytes), std::byte{99});
  for (std::int64_t t = 0; t < tokens; ++t) table.quantize(x.data() + t * cols, nullptr, 1, 0, cols, quantized(), t);
}

QuantizedRows Activations::quantized() { return {data.data(), blocks, tokens}; }

Activations::Block Activations::block(std::int64_t token, std::int64_t index) const {
  const std::int64_t first = token / tile_columns * tile_columns, column = token - first;
  const std::int64_t columns = std::min<std::int64_t>(tile_columns, tokens - first);
  const std::byte* tile = data.data() + (first * blocks + index * columns) * kActivationBlockBytes;
  std::int8_t values[32] = {};
  std::int16_t sub_sums[2] = {}, sub_compensation[4] = {};
  Block block;
  std::memcpy(values, tile + 32 * column, sizeof values);
  std::memcpy(&block.scale, tile + 32 * columns + 4 * column, sizeof block.scale);
  std::memcpy(&block.sum, tile + 36 * columns + 4 * column, sizeof block.sum);
  std::memcpy(sub_sums, tile + 40 * columns + 4 * column, sizeof sub_sums);
  std::memcpy(&block.compensation, tile + 44 * columns + 4 * column, sizeof block.compensation);
  std::memcpy(sub_compensation, tile + 48 * columns + 8 * column, sizeof sub_compensation);
  block.values.assign(values, values + 32);
  block.sub_sums = {sub_sums[0], sub_sums[1]};
  block.sub_compensation.assign(sub_compensation, sub_compensation + 4);
  return block;
}

Weights::Weights(TensorType t, std::vector<std::byte> file, std::int64_t row_count, std::int64_t col_count)
    : type(t), bytes(std::move(file)), rows(row_count), cols(col_count), row_bytes(bytes.size() / static_cast<std::size_t>(rows)) {}

void Weights::pack(const KernelTable& table) {
  if (table.panel_rows == 0 || !has_panels(type)) return;
  std::vector<std::byte> panels(packed_bytes(type, rows, row_bytes, table.panel_rows), std::byte{0xa5});
  repack(type, bytes.data(), row_bytes, 0, rows, table.panel_rows, panels.data());
  bytes = std::move(panels);
  packed = true;
}

std::vector<float> multiply(const KernelTable& table, const Weights& w, Activations& x) {
  std::vector<float> y(static_cast<std::size_t>(w.rows * x.tokens), 0.25f);
  std::vector<std::byte> scratch(
      table.panel_rows > 0 && has_panels(w.type) ? packed_bytes(w.type, table.panel_rows, w.row_bytes, table.panel_rows) : 0);
  table.matmul[static_cast<std::size_t>(w.type)]({w.bytes.data(), w.row_bytes, w.packed, 0, w.rows, w.cols, x.x.data(), x.quantized(),
                                                  x.tokens, y.data(), w.rows, false, scratch.data()});
  return y;
}

std::vector<float> multiply_packed(const KernelTable& table, Weights weights, Activations& x) {
  weights.pack(table);
  return multiply(table, weights, x);
}

std::vector<std::uint32_t> bits(const std::vector<float>& values) {
  std::vector<std::uint32_t> out;
  for (const float value : values) out.push_back(std::bit_cast<std::uint32_t>(value));
  return out;
}

}  // namespace yamata::cpu
