#include "node/tensor_type.hpp"

#include <array>

namespace yamata {
namespace {

/// By the format's number; types that are not here are not supported.
constexpr std::array<TypeTraits, kTensorTypeCount> kTraits = [] {
  std::array<TypeTraits, kTensorTypeCount> all{};
  const auto put = [&](TensorType type, TypeTraits traits) { all[static_cast<std::uint32_t>(type)] = traits; };
  put(TensorType::F32, {"F32", 1, 4});
  put(TensorType::F16, {"F16", 1, 2});
  put(TensorType::Q4_0, {"Q4_0", 32, 18});
  put(TensorType::Q4_1, {"Q4_1", 32, 20});
  put(TensorType::Q5_0, {"Q5_0", 32, 22});
  put(TensorType::Q5_1, {"Q5_1", 32, 24});
  put(TensorType::Q8_0, {"Q8_0", 32, 34});
  put(TensorType::Q2_K, {"Q2_K", 256, 84});
  put(TensorType::Q3_K, {"Q3_K", 256, 110});
  put(TensorType::Q4_K, {"Q4_K", 256, 144});
  put(TensorType::Q5_K, {"Q5_K", 256, 176});
  put(TensorType::Q6_K, {"Q6_K", 256, 210});
  put(TensorType::IQ2_XXS, {"IQ2_XXS", 256, 66});
  put(TensorType::IQ2_XS, {"IQ2_XS", 256, 74});
  put(TensorType::IQ3_XXS, {"IQ3_XXS", 256, 98});
  put(TensorType::IQ1_S, {"IQ1_S", 256, 50});
  put(TensorType::IQ4_NL, {"IQ4_NL", 32, 18});
  put(TensorType::IQ3_S, {"IQ3_S", 256, 110});
  put(TensorType::IQ2_S, {"IQ2_S", 256, 82});
  put(TensorType::IQ4_XS, {"IQ4_XS", 256, 136});
  put(TensorType::IQ1_M, {"IQ1_M", 256, 56});
  put(TensorType::BF16, {"BF16", 1, 2});
  put(TensorType::TQ1_0, {"TQ1_0", 256, 54});
  put(TensorType::TQ2_0, {"TQ2_0", 256, 66});
  put(TensorType::MXFP4, {"MXFP4", 32, 17});
  return all;
}();

}  // namespace

const TypeTraits* find_type(std::uint32_t raw) {
  return raw < kTensorTypeCount && kTraits[raw].block_elements != 0 ? &kTraits[raw] : nullptr;
}

const TypeTraits& traits(TensorType type) { return kTraits[static_cast<std::uint32_t>(type)]; }

std::size_t row_bytes(TensorType type, std::int64_t elements) {
  const TypeTraits& t = traits(type);
  return static_cast<std::size_t>(elements) / t.block_elements * t.block_bytes;
}

}  // namespace yamata
