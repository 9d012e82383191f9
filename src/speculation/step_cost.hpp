#pragma once
// What further rows cost a stage.
#include <array>
#include <vector>

namespace yamata {

/// Learns, from the runs of a stage, how long a run of each number of rows takes. That is no straight line: kernels take rows in
/// tiles. Late runs weigh more.
class StepCost {
 public:
  static constexpr int kWidest = 16;  ///< wider runs are prompts, whose rows cost otherwise

  /// What a run of so many rows takes, in runs of one, as far as can be told before any has been measured.
  static double prior(int rows);
  /// A run of `rows` rows took this long.
  void ran(int rows, double seconds);
  /// How long a run of so many rows takes, as far as can be told; no less than one of fewer rows. 0 before anything is known.
  double run_s(int rows) const;
  /// Mean times of runs of 1, 2, ... rows; 0 where there was none.
  std::vector<double> measured_s() const;
  /// [k], k up to `most`: by how much longer than one row a run of k rows beside `rows` is, in runs of one row; never falls.
  std::vector<double> marginal(int rows, int most) const;

 private:
  struct Mean {
    double weight = 0, seconds = 0;  // sum
    double value() const { return seconds / weight; }
  };
  double guess(int rows) const;
  std::array<Mean, kWidest + 1> of_width_;
};

}  // namespace yamata
