#pragma once
// What yamata perplexity can be asked for.
#include <cxxopts.hpp>
#include <string>

#include "launch/options.hpp"

namespace yamata {

struct PerplexityOptions {
  JobOptions job;
  TextSource text;
  int chunks = 0;  ///< 0: all
  std::string json_file;
};

cxxopts::Options perplexity_flags();
/// Throws UsageError naming the flag that makes no sense.
PerplexityOptions read_perplexity(const cxxopts::ParseResult& result);

}  // namespace yamata
