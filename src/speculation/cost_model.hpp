#pragma once
// What guesses cost and what they save: how many rows a run takes, how many runs are in flight, whether the text waits for a guess. Numbers
// in, a decision out: no clock and no messages. docs/speculation.md has the formulas on one page.
#include <cstddef>
#include <span>
#include <vector>

#include "src/speculation/policy.hpp"
#include "src/speculation/source_calibration.hpp"

namespace yamata {

/// What is known of the target. Times are of runs of one row; 0: not measured yet.
struct TargetTimes {
  int stages = 1;
  double stage_s = 0;       ///< T: on the first stage
  double round_trip_s = 0;  ///< R: from the head through all stages and back
  double text_rate = 0;     ///< r: tokens of text per second, of late
  double link_s = 0;        ///< L: by which each row occupies each link between two stages
  double result_s = 0;      ///< the same on the way back to the head
  bool in_turns = false;    ///< a draft computes between the runs, on the first stage's unit: R is not what a token takes then
};

/// What a run of one row occupies most, a stage or a link: max(T, L, result). No pipeline takes runs faster.
double step_s(const TargetTimes& target);

/// What a token of the text takes, leaving aside guesses that cost more than they save: min(R, 1 / r); R while r is not known.
double token_s(const TargetTimes& target);

/// Runs of one row that the pipeline holds at a time: one per stage, and those on their way between stages: max(stages, R / step).
int most_runs_in_flight(const TargetTimes& target);

/// As how many runs of one row one of `rows` counts among those in flight: more rows than a step carries hold up a link for several.
double steps_on_links(const TargetTimes& target, std::size_t rows);

/// By how much `rows` further rows, which lengthen a run by `marginal` runs of one row on each stage, delay its own result.
double delay_s(const TargetTimes& target, double marginal, std::size_t rows);

/// The least that a row beyond `rows` costs, in runs of one row, in the mean of those to come: kernels take rows in tiles, so the next one
/// may be expensive and those after it free. min over k > rows of (marginal[k] - marginal[rows]) / (k - rows). `rows` is less than the last
/// index of `marginal`.
double least_row_cost(const std::vector<double>& marginal, std::size_t rows);

/// Costs of guesses that go with the tip. The tip's own result comes later by their marginal cost at each stage, during which the text
/// would have grown at the present rate: occupancy = stages * r T. Where others may follow the tip (`followed`), a guess left out is only
/// put off by a step, so that a token per step is what it must bring: stages * max(1, r T).
RunCosts tip_costs(const TargetTimes& target, const std::vector<double>& marginal, bool followed);

/// Costs of guesses that go behind the tip. A longer run keeps the stages from what the text would grow by meanwhile, or from what
/// iterating would give before a rate is known: occupancy = r T, or 1 / stages. Its own results come later by its marginal cost at each
/// further stage, which matters as far as its best guess is accepted: lateness = 0.75 (stages - 1).
RunCosts guess_costs(const TargetTimes& target, const std::vector<double>& marginal);

/// The tip's run, before it is sent.
struct TipRun {
  std::size_t guesses = 0;              ///< that go along as it is
  double least_probability = 1;         ///< path probability of the least of them; 1: there is none
  bool last_chance = false;             ///< nothing follows this run before its result: a guess that comes too late for it is lost
  const std::vector<double>* marginal;  ///< as in RunCosts; its last index is the most guesses of a run
};

/// A source that may guess more.
struct AwaitedSource {
  double first_s = 0, next_s = 0;  ///< until its next guess, and from that to the one after it
  double acceptance = 0;           ///< a: share of its first choices that are accepted
  double open = 0;  ///< o: probability that the text comes to a place where it may guess next, and goes on as nobody has guessed
};

/// The likeliest place at which a source may guess next, below the root or one of its guesses among `nodes`: the text comes there and goes
/// on as nobody has guessed.
double open_probability(const TokenTree& tree, const SourceCalibration& source, std::span<const NodeId> nodes);

/// Whether any guess could be worth waiting for; if not, the sources need not be asked.
bool may_wait(const TargetTimes& target, const TipRun& run);

/// Whether the tip, and with it all text, waits for the source's next guess. Its k-th guess is accepted with probability o a^k. In time it
/// saves a token, where this is the last chance (token_s); else it would only follow a step of the first stage later, and saves
/// min(1 / r, 0.75 T). It costs its latency, and a row at every stage, or in a full run the place of the least probable guess. Where this
/// is the last chance the guesses after it may pay for it.
bool worth_waiting(const TargetTimes& target, const TipRun& run, const AwaitedSource& source);

}  // namespace yamata
