#pragma once
// How often guesses of a given draft probability are accepted.
#include <array>
#include <cstdint>
#include <span>

namespace yamata {

/// One of the tokens that a source guessed after a token.
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
    happened_ = kForget * happened_ + (happened ? 1 : 0);
  }
  double weight() const { return weight_; }
  double happened() const { return happened_; }
  /// 0 before anything is known.
  double value() const { return weight_ > 0 ? happened_ / weight_ : 0; }
  /// The same, with what drafts of the target's family usually reach in place of what is not known yet.
  double expected() const { return (kUsual * kFew + happened_) / (kFew + weight_); }

 private:
  static constexpr double kForget = 0.99;          // weight that a thing keeps with each later one: the last hundred count
  static constexpr double kUsual = 0.7, kFew = 4;  // things that this counts for
  double weight_ = 0, happened_ = 0;
};

/// Maps a source's draft probability to a calibrated one: the share of its guesses with that probability that were accepted of late. A
/// small draft is over-confident: its .9 may mean .6. A source's first choice after a token is accepted more often than another guess of
/// the same probability, so the two are told apart. Where few guesses had a probability, the draft probability itself counts.
class Calibration {
 public:
  /// The calibrated probability; p itself before anything is known.
  float operator()(float p, bool first) const;
  /// A guess with draft probability p was decided.
  void decided(float p, bool first, bool accepted);
  /// All guesses of a source after a token were: `token` is the text's.
  void decided(std::span<const Choice> choices, std::int32_t token);
  /// Share of the text's tokens that were this source's first choice, of those that it had one for.
  double first_choice_rate() const { return firsts_.value(); }

 private:
  static constexpr int kBins = 12;
  static int bin_of(float p);
  double trust() const;
  std::array<std::array<Share, kBins>, 2> bins_;  // of other choices, of first ones
  Share all_;                                     // each guess for as much as its p
  Share firsts_;
};

}  // namespace yamata
