#pragma once
// Searches the shares of units that compute at the same time (Ghidorah's ARCA): times of each unit alone give the first shares, measured
// times under contention improve them.
#include <cstdint>
#include <span>
#include <vector>

namespace yamata {

/// The shares at which units would end together if they did not slow each other down, from their times for all of the work, each alone.
/// EdgeNN's ratio, which Medusa's baseline uses.
std::vector<double> isolated_shares(std::span<const double> isolated_s);

/// Moves a number of grains from the slowest unit to the fastest while the longest time decreases. Halves the number if it does not
/// decrease, or if another unit has become the slowest. Ends at one grain.
class ShareTuner {
 public:
  /// `grains`: number of pieces into which the work can be divided.
  ShareTuner(std::span<const double> isolated_s, std::int64_t grains);

  bool done() const { return step_ == 0; }
  /// The shares to measure next; at the end, the best ones.
  std::vector<double> shares() const;
  /// The time of each unit at these shares.
  void measured(std::span<const double> seconds);

 private:
  void propose();

  std::int64_t step_;
  std::vector<std::int64_t> trial_, best_;  // grains per unit
  double best_s_ = 0;
  std::size_t slowest_ = 0, fastest_ = 0;  // at the best shares
};

}  // namespace yamata
