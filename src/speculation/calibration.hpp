#pragma once
// What a drafter's probabilities are worth.
#include <array>
#include <cstdint>
#include <span>

namespace yamata {

/// One of the tokens that a drafter proposed after a token.
struct Choice {
  float stated;  ///< its own probability
  std::int32_t token;
};

/// Learns, while the text goes on, what share of the tokens that a drafter gave probability p came true. A small draft is
/// over-confident: its .9 may mean .6. The same p is worth more where it is the drafter's first choice after a token than where it is
/// not, so the two are told apart. Of a p that few were given, all its word counts: a draft that knows nothing is soon found out.
/// Recent tokens weigh more.
class Calibration {
 public:
  /// The share to expect for p; p itself before anything is known.
  float operator()(float p, bool first) const;
  /// A proposal with probability p was decided.
  void decided(float p, bool first, bool came_true);
  /// All that the drafter proposed after a token were: `token` came true.
  void decided(std::span<const Choice> choices, std::int32_t token);
  /// Share of the text's tokens that were this drafter's first choice, of those that it had one for.
  double first_choice_rate() const { return first_weight_ > 0 ? first_hits_ / first_weight_ : 0; }

 private:
  static constexpr int kBins = 12;
  struct Bin {
    double weight = 0, hits = 0;
  };
  static int bin_of(float p);
  double trust() const;
  std::array<std::array<Bin, kBins>, 2> bins_;  // of other choices, of first ones
  double stated_ = 0, hits_ = 0;                // of all: the sum of the p, and how many came true
  double first_weight_ = 0, first_hits_ = 0;
};

}  // namespace yamata
