#include "tests/cpu/support.hpp"

#include <bit>
#include <cstring>

#ifdef YAMATA_TEST_SIMDE
#define YAMATA_SIMDE
#include "node/cpu/tables.hpp"
#endif

namespace yamata::cpu {

std::vector<NamedTable> tables_under_test() {
  std::vector<NamedTable> tables;
  for (const Isa isa : {Isa::kAvx2, Isa::kAvx512, Isa::kNeon, Isa::kNeonDotprod}) {
    if (isa_usable(isa)) tables.push_back({isa_name(isa), &kernels(isa)});
  }
#ifdef YAMATA_TEST_SIMDE
  if (isa_usable(Isa::kAvx2)) {  // the emulation is compiled for AVX2, whose fused multiply-add it needs
    tables.push_back({"simde-avx512", &simde_table_avx512});
    tables.push_back({"simde-neon", &simde_table_neon});
    tables.push_back({"simde-neon-dotprod", &simde_table_neon_dotprod});
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

/// Where a block's half floats lie.
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
    default:
      return {0};
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
  }
  return data;
}

Activations::Activations(const KernelTable& table, std::vector<float> input, std::int64_t tokens, std::int64_t cols)
    : x(std::move(input)), padded(QuantizedRows::pad(cols)) {
  values.resize(static_cast<std::size_t>(tokens * padded), 99);
  scales.resize(static_cast<std::size_t>(tokens * padded / 32), 99.0f);
  sums.resize(static_cast<std::size_t>(tokens * padded / 4), 99.0f);
  for (std::int64_t t = 0; t < tokens; ++t) table.quantize(x.data() + t * cols, 0, cols, quantized(), t);
}

QuantizedRows Activations::quantized() { return {values.data(), scales.data(), sums.data(), padded}; }

std::vector<float> multiply(const KernelTable& table, TensorType type, const std::vector<std::byte>& weights, Activations& x,
                            std::int64_t rows, std::int64_t cols, std::int64_t tokens) {
  std::vector<float> y(static_cast<std::size_t>(rows * tokens), 0.25f);
  const TypeTraits& t = traits(type);
  const std::size_t row_bytes = static_cast<std::size_t>(cols / t.block_elements) * t.block_bytes;
  table.matmul[static_cast<std::size_t>(type)](
      {weights.data(), row_bytes, 0, rows, cols, x.x.data(), x.quantized(), tokens, y.data(), rows, false});
  return y;
}

std::vector<std::uint32_t> bits(const std::vector<float>& values) {
  std::vector<std::uint32_t> out;
  for (const float value : values) out.push_back(std::bit_cast<std::uint32_t>(value));
  return out;
}

}  // namespace yamata::cpu
