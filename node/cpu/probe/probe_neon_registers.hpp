#pragma once
// NEON registers for probe_template.hpp, without the products of bytes.
#include <arm_neon.h>

#include <cstddef>
#include <cstdint>

#define YAMATA_HIDE(r) asm volatile("" : "+w"(r))

namespace yamata::cpu {
namespace {

constexpr int kMultiplyStreams = 18;

using Words = uint64x2_t;
using Sums = int32x4_t;
using Bytes = int8x16_t;
using Floats = float32x4_t;
constexpr std::size_t kWords = 2;

inline Words no_words() { return vdupq_n_u64(0); }
inline Words load(const std::uint64_t* p) { return vld1q_u64(p); }
inline Words add(Words a, Words b) { return vaddq_u64(a, b); }
inline std::uint64_t total_words(Words a) { return vaddvq_u64(a); }

inline Sums no_sums() { return vdupq_n_s32(0); }
inline Bytes byte_ones() { return vdupq_n_s8(1); }
inline std::uint64_t total_sums(Sums a) { return static_cast<std::uint64_t>(vaddlvq_s32(a)); }

inline Floats no_floats() { return vdupq_n_f32(0); }
inline Floats float_ones() { return vdupq_n_f32(1); }
inline Floats multiply_add(Floats sum, Floats a, Floats b) { return vfmaq_f32(sum, a, b); }
inline double total_floats(Floats a) {
  const float64x2_t wide = vaddq_f64(vcvt_f64_f32(vget_low_f32(a)), vcvt_high_f64_f32(a));
  return vaddvq_f64(wide);
}

}  // namespace
}  // namespace yamata::cpu
