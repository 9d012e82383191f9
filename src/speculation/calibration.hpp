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

/// The share of events with a positive outcome; recent events weigh more.
class Share {
 public:
  void count(bool happened) { count(1, happened); }
  /// Records an event that counts for `weight`; the share is then relative to the sum of weights.
  void count(double weight, bool happened) {
    weight_ = kForget * weight_ + weight;
    happened_ = kForget * happened_ + (happened ? 1 : 0);
  }
  double weight() const { return weight_; }
  double happened() const { return happened_; }
  /// 0 before anything is known.
  double value() const { return weight_ > 0 ? happened_ / weight_ : 0; }
  /// The same, with the usual share of drafts of the target's family as the prior.
  double expected() const { return (kUsual * kFew + happened_) / (kFew + weight_); }

 private:
  static constexpr double kForget = 0.99;          // factor per later event: about the last hundred count
  static constexpr double kUsual = 0.7, kFew = 4;  // the prior, and the number of events that it counts for
  double weight_ = 0, happened_ = 0;
};

/// Maps a source's draft probability to a calibrated one: the share of its recent guesses with that probability that were accepted. A small
/// draft is over-confident: its .9 may mean .6. A source's first choice after a token is accepted more often than another guess of the same
/// probability, so the two are counted separately. With few guesses of a probability, the draft probability itself is used.
class Calibration {
 public:
  /// The calibrated probability; p itself without data.
  float operator()(float p, bool first) const;
  /// Records whether a guess with draft probability p was accepted.
  void decided(float p, bool first, bool accepted);
  /// The same for all guesses of a source after a token; `token` is the token of the text.
  void decided(std::span<const Choice> choices, std::int32_t token);
  /// Share of the text's tokens for which this source's first choice was right, among those that it guessed.
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
