#pragma once
// What yamata features can be asked for.
#include <cxxopts.hpp>
#include <string>
#include <vector>

#include "launch/options.hpp"

namespace yamata {

struct FeaturesOptions {
  JobOptions job;
  TextSource text;
  std::string output;               ///< -o
  std::vector<std::string> layers;  ///< as they were written: numbers, "last", or "eagle3" alone
  bool halves = true;               ///< --type f16
  bool generates = false;           ///< --generate is given; job.generate says how many
  int prompt_tokens = 32;           ///< of each line of a plain text, where the model writes on
  int texts = 0;                    ///< --texts: at most; 0: all
  int shard_mib = 512;
  SamplingParams sampling;
};

cxxopts::Options features_flags();
/// Throws UsageError naming the flag that makes no sense.
FeaturesOptions read_features(const cxxopts::ParseResult& result);

}  // namespace yamata
