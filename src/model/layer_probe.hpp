#pragma once
// Measures how fast a compute unit processes a model's weights, by computing some layers.
#include <array>
#include <atomic>
#include <chrono>
#include <span>
#include <vector>

#include "src/model/model_file.hpp"
#include "src/model/transformer_stage.hpp"

namespace yamata {

/// Numbers of tokens of the timed runs, if the cost of guesses must be known. By default, the policy's largest run has the last of these
/// widths.
inline constexpr std::array<int, 3> kProbedWidths{2, 4, 8};

/// Bytes of weights that no cache of this machine keeps from one run to the next, as with a whole model's weights: twice the last-level
/// caches, at most 256 MiB, which are read and packed in a fraction of a second.
std::size_t uncached_bytes();

/// The smallest range of layers around `middle` whose weights, as read for a token, are at least `bytes`; all layers if the model has less.
LayerRange layers_of_bytes(const ModelFile& model, std::int64_t middle, std::size_t bytes);

/// Computes layers of a model repeatedly. The pages that it reads stay mapped: release them afterwards.
class LayerProbe {
 public:
  /// `model` and `unit` must outlive this; `widest`: the most tokens of a run; `copies`: the weights are copied to the unit for each run.
  /// Throws ModelError if a layer's tensors are invalid.
  LayerProbe(const ModelFile& model, LayerRange layers, ComputeUnit& unit, int widest = 1, bool copies = false);

  /// Reads the weights and computes once. False if reading takes longer than `patience`, or is stopped: then nothing can be measured.
  bool warm_up(std::chrono::milliseconds patience);
  /// When `stop` becomes true, measurements end soon and their results are meaningless. `stop` must outlive this.
  void stop_on(const std::atomic<bool>& stop) { stop_ = &stop; }
  // After warm_up: nanoseconds of wall time per byte of weights. Total time divided by total work, so that pauses by a CPU quota or on a
  // busy machine count as they will count in the runs.
  /// One window: 10 to 25 ms, or one repetition where that takes longer.
  double quick_check();
  /// The median of five windows of 10 ms, or of one repetition each if that takes longer, so that a single stall does not matter.
  double measure();
  /// The time of runs of so many tokens each, relative to runs of one token. Of three windows of each, measured in turns, the fastest
  /// counts: a disturbance in one of them would change a ratio that is then kept for a day.
  std::vector<double> width_multiples(std::span<const int> widths);

 private:
  /// Repetitions during the time `took`.
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
