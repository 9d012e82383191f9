#pragma once
#include <cstdint>

namespace yamata {

/// Elements of the largest head of attention that kernels have room for (latent attention of DeepSeek).
inline constexpr std::int64_t kMaxHeadDim = 576;

}  // namespace yamata
