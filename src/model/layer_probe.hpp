#pragma once
// How fast a compute unit works through a model's weights, found by computing some layers.
#include <array>
#include <atomic>
#include <chrono>
#include <span>
#include <vector>

#include "src/model/model_file.hpp"
#include "src/model/transformer_stage.hpp"

namespace yamata {

/// Tokens of the runs that are timed where it must be known what guesses cost: the policy's run has so many at most, by default.
inline constexpr std::array<int, 3> kProbedWidths{2, 4, 8};

/// Bytes of weights that no cache of this machine keeps from one run to the next, as a model's weights are too many to be kept: twice the
/// caches. At most 256 MiB, which are read and packed in a fraction of a second.
std::size_t uncached_bytes();

/// The fewest layers with `middle` among them whose weights, as a token reads them, are `bytes` or more; all where they are fewer.
LayerRange layers_of_bytes(const ModelFile& model, std::int64_t middle, std::size_t bytes);

/// Computes layers of a model, one run after the other. The pages it touches stay mapped: release them after.
class LayerProbe {
 public:
  /// `model` and `unit` outlive this; `widest`: the most tokens of a run. Throws ModelError where a layer is not as it should be.
  LayerProbe(const ModelFile& model, LayerRange layers, ComputeUnit& unit, int widest = 1);

  /// Reads the weights and computes once. False where reading takes longer than `patience`: then nothing can be measured.
  bool warm_up(std::chrono::milliseconds patience);
  /// Where it becomes true, what is measured from then on ends soon and says nothing. It outlives this.
  void stop_on(const std::atomic<bool>& stop) { stop_ = &stop; }
  // After it: nanoseconds of wall time per byte of weights. Total time over total work, so that the pauses of a quota and the
  // turns of a busy machine count as they will count in the runs.
  /// One window: 10 to 25 ms, or one repetition where that takes longer.
  double quick_check();
  /// The median of five windows of 10 ms, or of one repetition each: a machine that stalled once is not taken for a slow one.
  double measure();
  /// The time of runs of so many tokens each, in runs of one: medians of three such windows of each, in turns.
  std::vector<double> width_multiples(std::span<const int> widths);

 private:
  /// Repetitions that went on for `took`.
  struct Work {
    int repetitions = 0;
    std::chrono::steady_clock::duration took{};
  };
  Work window(std::chrono::microseconds length, int rows = 1);
  double ns_per_byte(const Work& work) const;
  void compute(int rows = 1);
  void wait();

  ComputeUnit& unit_;
  const int widest_;
  TransformerStage stage_;
  double bytes_ = 0;
  const std::atomic<bool>* stop_ = nullptr;
  std::vector<float> activations_;
  std::chrono::microseconds window_{0};
};

}  // namespace yamata
