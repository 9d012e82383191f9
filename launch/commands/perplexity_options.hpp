#pragma once
// The options of yamata perplexity.
#include <cxxopts.hpp>
#include <string>

#include "launch/program/options/options.hpp"

namespace yamata {

struct PerplexityOptions {
  JobOptions job;
  TextSource text;
  int chunks = 0;  ///< 0: all
  std::string json_file;
};

cxxopts::Options perplexity_flags();
/// Throws UsageError naming the invalid flag.
PerplexityOptions read_perplexity(const cxxopts::ParseResult& result);

}  // namespace yamata
