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
/// Throws UsageError naming what is missing or makes no sense.
QuantizeOptions read_quantize(const cxxopts::ParseResult& result);
/// The last of SRC DST TYPE NTHREADS, where it is given.
std::optional<int> threads_word(const cxxopts::ParseResult& result);

}  // namespace yamata
