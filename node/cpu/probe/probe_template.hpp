#pragma once
// The loops of probe_kernels.hpp for one instruction set. Its registers must be defined before this is included:
//   Words, of kWords 64-bit words: no_words, load, add, total_words;
//   Sums and Bytes: no_sums, byte_ones, multiply_add (the compiler must not notice that all bytes are equal), total_sums;
//   Floats: no_floats, float_ones, multiply_add, total_floats;
//   kMultiplyStreams: the number of independent sums: more than the latency of a multiply-add times those that start per cycle, fewer than
//   the registers; YAMATA_HIDE(register): hides the register's value from the compiler's optimizations.
#include <cstddef>
#include <cstdint>

#include "node/cpu/probe/probe_kernels.hpp"

namespace yamata::cpu {
namespace {

std::uint64_t read(const std::uint64_t* words, std::size_t count) {
  constexpr std::size_t kStreams = 8;
  static_assert(kProbeWords % (kStreams * kWords) == 0);
  Words sums[kStreams];
  for (Words& s : sums) s = no_words();
  for (std::size_t i = 0; i < count; i += kStreams * kWords) {
    for (std::size_t s = 0; s < kStreams; ++s) sums[s] = add(sums[s], load(words + i + s * kWords));
  }
  std::uint64_t sum = 0;
  for (const Words& s : sums) sum += total_words(s);
  return sum;
}

std::uint64_t multiply_bytes(std::uint32_t rounds) {
  Sums sums[kMultiplyStreams];
  for (Sums& s : sums) s = no_sums();
  Bytes a = byte_ones(), b = byte_ones();
  YAMATA_HIDE(b);
  for (std::uint32_t i = 0; i < rounds; ++i) {
    for (Sums& s : sums) s = multiply_add(s, a, b);
  }
  std::uint64_t sum = 0;
  for (const Sums& s : sums) sum += total_sums(s);
  return sum;
}

std::uint64_t multiply_floats(std::uint32_t rounds) {
  Floats sums[kMultiplyStreams];
  for (Floats& s : sums) s = no_floats();
  Floats a = float_ones(), b = float_ones();
  YAMATA_HIDE(b);
  for (std::uint32_t i = 0; i < rounds; ++i) {
    YAMATA_HIDE(a);
    for (Floats& s : sums) s = multiply_add(s, a, b);
  }
  double sum = 0;
  for (const Floats& s : sums) sum += total_floats(s);
  return static_cast<std::uint64_t>(sum);
}

}  // namespace
}  // namespace yamata::cpu
