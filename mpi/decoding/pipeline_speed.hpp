#pragma once
// What is measured of a pipeline, whichever text it computes.
#include <limits>
#include <optional>

#include "mpi/decoding/tree_runs.hpp"
#include "src/speculation/cost_model.hpp"
#include "src/speculation/link_rate.hpp"
#include "src/speculation/text_rate.hpp"
#include "src/speculation/token_alone.hpp"

namespace yamata {

/// The target's times, on which all decisions about guesses depend: of runs through all stages, of links, of a token without guesses, and
/// the speed of all texts together. One text teaches the next. While there are several texts, their runs wait for each other, and tell
/// nothing of links and of a token alone.
class PipelineSpeed {
 public:
  explicit PipelineSpeed(Pipeline& target) : target_(target), origin_(Clock::now()) {}

  /// A text begins. `result_share`: bytes of a row of its results, relative to a row of activations.
  void text_began(double result_share);
  void text_ended() { --texts_; }
  /// Texts that are being generated.
  int texts() const { return texts_; }

  /// The result of a prompt of `rows` rows in `chunks` runs, for which the first stage computed `busy_s` seconds since `began`.
  void prompt_returned(Clock::time_point began, int rows, int chunks, double busy_s);
  /// The result of a run of tree nodes behind a prompt. `told_backward`: the way of cancellations.
  void run_returned(const TreeRuns::Run& run, bool skipped, bool told_backward);
  /// A result of a run with a root became `tokens` tokens of some text, `seconds` after that text's result before; `alone`: without
  /// guesses, and without waiting for any. `first`: it is a prompt's.
  void text_came(int tokens, double seconds, bool alone, bool first);

  /// Times as decisions need them; `in_turns`: as in TargetTimes.
  TargetTimes times(bool in_turns) const;
  /// How many runs of `rows` rows the pipeline holds at a time so that no stage waits, and none in a queue.
  int depth(int rows) const;
  /// Times of runs through all stages, by their rows.
  const StepCost& turnaround() const { return turnaround_; }
  const TokenAlone& alone() const { return alone_; }

 private:
  double since_origin(Clock::time_point t) const { return std::chrono::duration<double>(t - origin_).count(); }

  Pipeline& target_;
  const Clock::time_point origin_;
  int texts_ = 0;
  double result_share_ = 0;
  StepCost turnaround_;  // of the root's runs: from here through all stages and back
  StepCost unhindered_;  // the same of those that were in flight alone
  TokenAlone alone_;
  std::optional<LinkRate> links_;
  bool links_expected_ = false;
  TextRate rate_;
};

}  // namespace yamata
