#pragma once
// The flags of yamata quantize.
#include <cxxopts.hpp>
#include <optional>
#include <string>

#include "src/quantize/mix.hpp"

namespace yamata {

struct QuantizeOptions {
  int threads = 0;  ///< 0: one per core
  std::string source, destination, imatrix;
  quantize::MixOptions mix;
  bool allow_requantize = false;
};

cxxopts::Options quantize_flags();
/// Throws UsageError naming the missing or invalid flag.
QuantizeOptions read_quantize(const cxxopts::ParseResult& result);
/// The last of the arguments SRC DST TYPE NTHREADS, if given.
std::optional<int> threads_word(const cxxopts::ParseResult& result);

}  // namespace yamata
