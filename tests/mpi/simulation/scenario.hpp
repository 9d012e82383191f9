#pragma once
// A scenario for a simulated cluster: everything that a seed determines.
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "mpi/decoding/decoder.hpp"
#include "src/sampling/sampler.hpp"

namespace yamata::test {

/// Everything that a seed determines.
struct Scenario {
  std::uint64_t seed = 0;
  std::vector<int> stages{1};  ///< number of ranks that share each stage
  struct Drafter {
    int ranks = 1;       ///< 0: on the head, sharing its unit
    bool group = false;  ///< the ranks share its layers
    double disagreement = 0.3;
  };
  std::vector<Drafter> drafters;
  DecodeOptions decode;
  DraftOptions draft;
  std::int32_t vocabulary = 8, prompt = 3;
  int texts = 1;                             ///< one after another
  std::vector<std::int32_t> feature_layers;  ///< layers at which a source reads features
  /// Heads on a rank of their own, on the head, or on the first drafter's rank; they read the last of feature_layers, kOutputFeatures.
  struct DraftHeads {
    enum class Place { kHead, kOwnRank, kDrafter } place = Place::kHead;
    std::vector<std::int32_t> layers;
    double disagreement = 0.3;
  };
  std::vector<DraftHeads> draft_heads;
  std::function<void(wire::Commit& commit)> tamper;  ///< changes the heads' messages, for tests
  int operations = 3;                                ///< per run and stage
  SamplingParams sampling;
  bool unplayable_speeds = false;
  /// number of tokens that a token sees in layers with a window, which have as few cells as possible; 0: no such layers
  std::int32_t window = 0;
  bool states = false;  ///< target and drafts have layers with states, and as few of their tokens' inputs as possible
  std::optional<std::size_t> drafter_that_dies;

  static Scenario random(std::uint64_t seed);
  std::string describe() const;
};

}  // namespace yamata::test
