#pragma once
// The options of yamata features.
#include <string>
#include <vector>

#include "launch/program/options/given_flags.hpp"
#include "launch/program/options/options.hpp"

namespace yamata {

struct FeaturesOptions {
  JobOptions job;
  TextSource text;
  std::string output;               ///< -o
  std::vector<std::string> layers;  ///< as in the flag: numbers, "last", or only "eagle3"
  bool halves = true;               ///< --type f16
  bool generates = false;           ///< --generate was given; the number is in `generate`
  int generate = 1;                 ///< tokens after each prompt
  std::string prompt_format;        ///< {} is replaced by the prompt
  bool formats = false;             ///< --prompt-format was given: each line of a plain text is a whole prompt
  int prompt_tokens = 32;           ///< tokens of each line of a plain text after which the model continues
  int texts = 0;                    ///< --texts: at most; 0: all
  int shard_mib = 512;
  SamplingParams sampling;
  bool ignore_eos = false;
  std::vector<std::string> idle_flags;  ///< lines about flags without effect
};

Flags features_flags();
/// Throws UsageError naming the flag that makes no sense.
FeaturesOptions read_features(const GivenFlags& result);

}  // namespace yamata
