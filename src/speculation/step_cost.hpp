#pragma once
// The cost of additional rows on a stage.
#include <array>
#include <vector>

namespace yamata {

/// Learns, from the runs of a stage, the time of a run for each number of rows. It is not linear, because kernels process rows in tiles.
/// Recent runs weigh more. The first ones soon count little, because caches were still being filled. Wider runs do not take less time:
/// where measured times say so, the widths get their weighted mean (isotonic regression), so old times of a width give way to recent ones
/// of another.
class StepCost {
 public:
  static constexpr int kWidest = 64;   ///< the cost of further rows is estimated
  static constexpr int kOfAText = 16;  ///< a text's step has hardly more rows; with more, they count as a prompt

  /// The estimated time of a run of this many rows, in one-row runs, before any measurement.
  static double prior(int rows);
  /// Records the time of a run of `rows` rows.
  void ran(int rows, double seconds);
  /// The estimated time of a run of this many rows; not less than that of fewer rows. 0 before any measurement.
  double run_s(int rows) const;
  /// Mean times of runs of 1, 2, ... rows, up to the widest; 0 where there was none.
  std::vector<double> measured_s() const;
  /// [k], k up to `most`: how much k rows in addition to `rows` lengthen a run, in one-row runs; never falls.
  std::vector<double> marginal(int rows, int most) const;

 private:
  struct Mean {
    double weight = 0, seconds = 0;  // sum
    double value() const { return seconds / weight; }
  };
  static constexpr int kWarmUp = 8;  // first runs
  void fit();
  bool known(int rows) const;
  void fill(int below, int above);
  int runs_ = 0;
  std::array<Mean, kWidest + 1> of_width_;
  std::array<double, kWidest + 1> fitted_{};  // estimates for each width; 0: nothing is known
};

}  // namespace yamata
