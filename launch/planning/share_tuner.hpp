#pragma once
// The search for the cut between units that compute at once (Ghidorah's ARCA): isolated times say where to begin, measured ones where to
// go.
#include <cstdint>
#include <span>
#include <vector>

namespace yamata {

/// In what proportion units that take so long for all of the work, each alone, would end together if they did not slow each other down.
/// EdgeNN's ratio, which Medusa's baseline uses.
std::vector<double> isolated_shares(std::span<const double> isolated_s);

/// Moves a step of grains from the slowest unit to the fastest while the longest time falls, halves the step where it does not, or where
/// another unit has become the slowest, and ends at one grain.
class ShareTuner {
 public:
  /// `grains`: pieces the work can be cut into.
  ShareTuner(std::span<const double> isolated_s, std::int64_t grains);

  bool done() const { return step_ == 0; }
  /// What is to be measured next; once done the best that was.
  std::vector<double> shares() const;
  /// How long each unit took at these shares.
  void measured(std::span<const double> seconds);

 private:
  void propose();

  std::int64_t step_;
  std::vector<std::int64_t> trial_, best_;  // grains of each unit
  double best_s_ = 0;
  std::size_t slowest_ = 0, fastest_ = 0;  // at the best
};

}  // namespace yamata
