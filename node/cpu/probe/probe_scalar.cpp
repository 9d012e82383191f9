#include <cstddef>
#include <cstdint>

// Hides a value from the compiler's optimizations: integers in a register, floats in memory or a register.
#define YAMATA_HIDE(r) asm volatile("" : "+r"(r))

namespace yamata::cpu {
namespace {

constexpr int kMultiplyStreams = 6;

using Words = std::uint64_t;
using Sums = std::uint32_t;
using Bytes = std::uint32_t;
struct Floats {
  float value;
};
constexpr std::size_t kWords = 1;

inline Words no_words() { return 0; }
inline Words load(const std::uint64_t* p) { return *p; }
inline Words add(Words a, Words b) { return a + b; }
inline std::uint64_t total_words(Words a) { return a; }

inline Sums no_sums() { return 0; }
inline Bytes byte_ones() { return 1; }
inline Sums multiply_add(Sums sum, Bytes& a, Bytes b) {
  YAMATA_HIDE(a);
  return sum + a * b;
}
inline std::uint64_t total_sums(Sums a) { return a; }

inline Floats no_floats() { return {0}; }
inline Floats float_ones() { return {1}; }
inline Floats multiply_add(Floats sum, Floats a, Floats b) { return {sum.value + a.value * b.value}; }
inline double total_floats(Floats a) { return static_cast<double>(a.value); }

}  // namespace
}  // namespace yamata::cpu

#include "node/cpu/probe/probe_template.hpp"

namespace yamata::cpu {

constinit const ProbeTable probe_scalar{Isa::kScalar, read, multiply_bytes, multiply_floats};

}  // namespace yamata::cpu
