#pragma once
// What a drafter's probabilities are worth.
#include <array>

namespace yamata {

/// Learns, while the text goes on, what share of the tokens that a drafter gave probability p came true. A small draft is
/// over-confident: its .9 may mean .6. Recent tokens weigh more.
class Calibration {
 public:
  /// The share to expect for p; p itself before anything is known.
  float operator()(float p) const;
  /// A proposal with probability p was decided.
  void decided(float p, bool came_true);
  /// Share of the text's tokens that were this drafter's first choice.
  double first_choice_rate() const { return first_weight_ > 0 ? first_hits_ / first_weight_ : 0; }
  void first_choice(bool came_true);

 private:
  static constexpr int kBins = 12;
  struct Bin {
    double weight = 0, hits = 0;
  };
  static int bin_of(float p);
  std::array<Bin, kBins> bins_;
  double first_weight_ = 0, first_hits_ = 0;
};

}  // namespace yamata
