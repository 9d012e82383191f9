#include "node/tensor_type.hpp"

namespace yamata {
namespace {

constexpr TypeTraits kTraits[kTensorTypeCount] = {
    {"F32", 1, 4},     // 0
    {"F16", 1, 2},     // 1
    {"Q4_0", 32, 18},  // 2
    {"Q4_1", 32, 20},  // 3
    {},
    {},                  // 4, 5: withdrawn from GGUF
    {"Q5_0", 32, 22},    // 6
    {"Q5_1", 32, 24},    // 7
    {"Q8_0", 32, 34},    // 8
    {},                  // 9
    {"Q2_K", 256, 84},   // 10
    {"Q3_K", 256, 110},  // 11
    {"Q4_K", 256, 144},  // 12
    {"Q5_K", 256, 176},  // 13
    {"Q6_K", 256, 210},  // 14
    {},
    {},
    {},
    {},
    {},                  // 15 to 19
    {"IQ4_NL", 32, 18},  // 20
    {},
    {},                    // 21, 22
    {"IQ4_XS", 256, 136},  // 23
    {},
    {},
    {},
    {},
    {},
    {},
    {"BF16", 1, 2},  // 30
};

}  // namespace

const TypeTraits* find_type(std::uint32_t raw) {
  return raw < kTensorTypeCount && kTraits[raw].block_elements != 0 ? &kTraits[raw] : nullptr;
}

const TypeTraits& traits(TensorType type) { return kTraits[static_cast<std::uint32_t>(type)]; }

}  // namespace yamata
