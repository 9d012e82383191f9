#pragma once
// What a further row costs a stage.

namespace yamata {

/// Learns, from the runs of a stage, how their time grows with their rows. A straight line is enough: the best width is where
/// a row's price meets its worth, and that optimum is flat. Late runs weigh more.
class StepCost {
 public:
  /// A run of `rows` rows took this long.
  void ran(int rows, double seconds);
  /// Share of a one-row run by which each further row lengthens it.
  double further_row() const;
  /// A one-row run; 0 before anything is known.
  double one_row_s() const;

 private:
  double slope() const;
  double weight_ = 0, rows_ = 0, seconds_ = 0, rows_squared_ = 0, product_ = 0;  // weighted sums
};

}  // namespace yamata
