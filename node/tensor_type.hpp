#pragma once
// Storage formats of tensors, numbered as in GGUF.
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace yamata {

enum class TensorType : std::uint32_t {
  F32 = 0,
  F16 = 1,
  Q4_0 = 2,
  Q4_1 = 3,
  Q5_0 = 6,
  Q5_1 = 7,
  Q8_0 = 8,
  Q2_K = 10,
  Q3_K = 11,
  Q4_K = 12,
  Q5_K = 13,
  Q6_K = 14,
  IQ2_XXS = 16,
  IQ2_XS = 17,
  IQ3_XXS = 18,
  IQ1_S = 19,
  IQ4_NL = 20,
  IQ3_S = 21,
  IQ2_S = 22,
  IQ4_XS = 23,
  IQ1_M = 29,
  BF16 = 30,
  TQ1_0 = 34,
  TQ2_0 = 35,
  MXFP4 = 39,
};
inline constexpr std::uint32_t kTensorTypeCount = 40;  ///< one more than the largest value

struct TypeTraits {
  std::string_view name;
  std::uint32_t block_elements;  ///< elements that share one block; rows are whole blocks
  std::uint32_t block_bytes;
};

/// Traits of the format with GGUF number `raw`, or null if Yamata does not support it.
const TypeTraits* find_type(std::uint32_t raw);
/// Traits of a supported format.
const TypeTraits& traits(TensorType type);
/// Bytes of a row of this many elements, which are whole blocks.
std::size_t row_bytes(TensorType type, std::int64_t elements);

}  // namespace yamata
