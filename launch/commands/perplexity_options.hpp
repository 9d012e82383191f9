#pragma once
// The options of yamata perplexity.
#include <string>

#include "launch/program/options/given_flags.hpp"
#include "launch/program/options/options.hpp"

namespace yamata {

struct PerplexityOptions {
  JobOptions job;
  TextSource text;
  int chunks = 0;  ///< 0: all
  std::string json_file;
};

Flags perplexity_flags();
/// Throws UsageError naming the invalid flag.
PerplexityOptions read_perplexity(const GivenFlags& result);

}  // namespace yamata
