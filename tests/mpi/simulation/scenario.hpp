#pragma once
// What is played in a simulated cluster: everything that a seed decides.
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "mpi/decoding/decoder.hpp"
#include "src/sampling/sampler.hpp"

namespace yamata::test {

/// Everything a seed decides.
struct Scenario {
  std::uint64_t seed = 0;
  std::vector<int> stages{1};  ///< ranks that share each stage
  struct Drafter {
    int ranks = 1;       ///< 0: on the head, sharing its unit
    bool group = false;  ///< they share its layers
    double disagreement = 0.3;
  };
  std::vector<Drafter> drafters;
  DecodeOptions decode;
  DraftOptions draft;
  std::int32_t vocabulary = 8, prompt = 3;
  int texts = 1;                             ///< one after the other
  std::vector<std::int32_t> feature_layers;  ///< at which a source reads features
  /// Heads on a rank of their own, on the head, or beside the first drafter; they read the last of these, kOutputFeatures.
  struct Heads {
    enum class Place { kHead, kOwnRank, kDrafter } place = Place::kHead;
    std::vector<std::int32_t> layers;
    double disagreement = 0.3;
  };
  std::vector<Heads> heads;
  std::function<void(wire::Commit& commit)> tamper;  ///< with what heads are told
  int operations = 3;                                ///< per run and stage
  SamplingParams sampling;
  bool unplayable_speeds = false;
  std::int32_t window = 0;  ///< tokens that a token sees in layers with a window, whose cells are as few as are enough; 0: no such layers
  std::optional<std::size_t> drafter_that_dies;

  static Scenario random(std::uint64_t seed);
  std::string describe() const;
};

}  // namespace yamata::test
