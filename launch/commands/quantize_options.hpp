#pragma once
// The flags of yamata quantize.
#include <optional>
#include <string>

#include "launch/program/options/given_flags.hpp"
#include "src/quantize/mix.hpp"

namespace yamata {

struct QuantizeOptions {
  int threads = 0;  ///< 0: one per core
  std::string source, destination, imatrix;
  quantize::MixOptions mix;
  bool allow_requantize = false;
};

Flags quantize_flags();
/// Throws UsageError naming the missing or invalid flag.
QuantizeOptions read_quantize(const GivenFlags& result);
/// The last of the arguments SRC DST TYPE NTHREADS, if given.
std::optional<int> threads_word(const GivenFlags& result);

}  // namespace yamata
