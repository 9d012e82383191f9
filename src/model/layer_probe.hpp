#pragma once
// How fast a compute unit works through a model's weights, found by computing one layer.
#include <array>
#include <chrono>
#include <vector>

#include "src/model/model_file.hpp"
#include "src/model/transformer_stage.hpp"

namespace yamata {

/// Tokens of the runs that are timed where it must be known what guesses cost: the policy's run has so many at most, by default.
inline constexpr std::array<int, 3> kProbedWidths{2, 4, 8};

/// Computes layer `layer` of a model. The pages it touches stay mapped: release them after.
class LayerProbe {
 public:
  /// `model` and `unit` outlive this; `widest`: the most tokens of a run. Throws ModelError where the layer is not as it should be.
  LayerProbe(const ModelFile& model, std::int64_t layer, ComputeUnit& unit, int widest = 1);

  /// Reads the weights and computes once. False where reading takes longer than `patience`: then nothing can be measured.
  bool warm_up(std::chrono::milliseconds patience);
  // After it: nanoseconds of wall time per byte of weights. Total time over total work, so that the pauses of a quota and the
  // turns of a busy machine count as they will count in the runs.
  /// One window: 10 to 25 ms, or one repetition where that takes longer.
  double quick_check();
  /// Two windows where they agree to a quarter, else six: a machine that stalled once is not taken for a slow one.
  double measure();
  /// The time of a run of that many tokens, in runs of one: two windows of each, in turns.
  double width_multiple(int rows);

 private:
  /// Repetitions that went on for `took`.
  struct Work {
    int repetitions = 0;
    std::chrono::steady_clock::duration took{};
  };
  Work window(int rows = 1);
  double ns_per_byte(const Work& work) const;
  void compute(int rows = 1);
  void wait();

  ComputeUnit& unit_;
  const int widest_;
  TransformerStage stage_;
  double bytes_;
  std::vector<float> activations_;
  std::chrono::microseconds window_{0};
};

}  // namespace yamata
