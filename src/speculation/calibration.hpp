#pragma once
// What a drafter's probabilities are worth.
#include <array>
#include <cstdint>
#include <span>

namespace yamata {

/// One of the tokens that a drafter proposed after a token.
struct Choice {
  float draft_probability;  ///< its own, before calibration
  std::int32_t token;
};

/// Of things that happen or not, the share that did; recent ones weigh more.
class Share {
 public:
  void count(bool happened) { count(1, happened); }
  /// A thing that counts for `weight`: what is told of then is how many happened for as much.
  void count(double weight, bool happened) {
    weight_ = kForget * weight_ + weight;
    hits_ = kForget * hits_ + (happened ? 1 : 0);
  }
  double weight() const { return weight_; }
  double hits() const { return hits_; }
  /// 0 before anything is known.
  double value() const { return weight_ > 0 ? hits_ / weight_ : 0; }
  /// The same, with what drafts of the target's family usually reach in place of what is not known yet.
  double expected() const { return (kUsual * kFew + hits_) / (kFew + weight_); }

 private:
  static constexpr double kForget = 0.99;          // weight that a thing keeps with each later one
  static constexpr double kUsual = 0.7, kFew = 4;  // things that this counts for
  double weight_ = 0, hits_ = 0;
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
  double first_choice_rate() const { return firsts_.value(); }

 private:
  static constexpr int kBins = 12;
  static int bin_of(float p);
  double trust() const;
  std::array<std::array<Share, kBins>, 2> bins_;  // of other choices, of first ones
  Share all_;                                     // each for the p that was stated
  Share firsts_;
};

}  // namespace yamata
