#pragma once
// Costs and savings of guesses: how many rows a run gets, how many runs are in flight, whether the text waits for a guess. Pure functions
// of numbers, without clock or messages. docs/speculation.md explains the formulas.
#include <cstddef>
#include <span>
#include <vector>

#include "src/speculation/policy.hpp"
#include "src/speculation/source_calibration.hpp"

namespace yamata {

/// Measurements of the target. Times are of one-row runs; 0: not measured yet.
struct TargetTimes {
  int stages = 1;
  double stage_s = 0;       ///< T: on the first stage
  double round_trip_s = 0;  ///< R: from the head through all stages and back
  double text_rate = 0;     ///< r: recent tokens of text per second
  double link_s = 0;        ///< L: time of a row on a link between two stages
  double result_s = 0;      ///< the same on the way back to the head
  bool in_turns = false;    ///< a draft computes between the runs, on the first stage's unit; then R is not the time of a token
};

/// The time between one-row runs, limited by the slowest stage or link: max(T, L, result).
double step_s(const TargetTimes& target);

/// The time of a token of the text, without guesses that cost more than they save: min(R, 1 / r); R while r is not known.
double token_s(const TargetTimes& target);

/// How many one-row runs the pipeline holds at a time, in stages and on links: max(stages, R / step).
int most_runs_in_flight(const TargetTimes& target);

/// As how many one-row runs a run of `rows` rows counts among the runs in flight: a wide run can occupy a link for several steps.
double steps_on_links(const TargetTimes& target, std::size_t rows);

/// The delay of a run's own result by `rows` additional rows, which lengthen it by `marginal` one-row runs on each stage.
double delay_s(const TargetTimes& target, double marginal, std::size_t rows);

/// The least average cost of rows beyond `rows`, in one-row runs. Kernels process rows in tiles, so the next row may be expensive and those
/// after it free: min over k > rows of (marginal[k] - marginal[rows]) / (k - rows). `rows` must be less than the last index of `marginal`.
double least_row_cost(const std::vector<double>& marginal, std::size_t rows);

/// Costs of guesses that are sent with the root. They delay the root's own result by their marginal cost at each stage, during which the
/// text would have grown at the present rate: occupancy = stages * r T. If other runs may follow the root (`followed`), an omitted guess is
/// only delayed by a step, so it must give a token per step: stages * max(1, r T).
RunCosts root_costs(const TargetTimes& target, const std::vector<double>& marginal, bool followed);

/// Costs of guesses that are sent behind the root. A longer run occupies the stages while the text could have grown at rate r; before a
/// rate is known, by what iterative decoding would give: occupancy = r T, or 1 / stages. Its own results are delayed by its marginal cost
/// at each further stage, which matters in proportion to the probability of its best guess: lateness = 0.75 (stages - 1).
RunCosts guess_costs(const TargetTimes& target, const std::vector<double>& marginal);

/// The root's run, before it is sent.
struct RootRun {
  std::size_t guesses = 0;              ///< that it has so far
  double least_probability = 1;         ///< lowest path probability among them; 1: there is none
  bool last_chance = false;             ///< nothing follows this run before its result: a guess that comes too late for it is lost
  const std::vector<double>* marginal;  ///< as in RunCosts; its last index is the most guesses of a run
};

/// A source that may make further guesses.
struct AwaitedSource {
  double first_s = 0, next_s = 0;  ///< until its next guess, and from that to the one after it
  double acceptance = 0;           ///< a: share of its first choices that are accepted
  double open = 0;                 ///< o: see open_probability
};

/// The greatest probability, over the root and the source's guesses among `nodes`, that the text reaches this node and continues with a
/// token that no source has guessed. There the source may guess next.
double open_probability(const TokenTree& tree, const SourceCalibration& source, std::span<const NodeId> nodes);

/// The probability that the text's next token is none of those that other sources have guessed.
double unguessed_probability(const TokenTree& tree, const SourceCalibration& source);

/// Whether any guess could be worth waiting for. If not, the sources need not be asked.
bool may_wait(const TargetTimes& target, const RootRun& run);

/// Whether the root, and with it all text, waits for the source's next guess. Its k-th guess is accepted with probability o a^k. If this is
/// the last chance, an accepted guess saves a token (token_s). Otherwise a late guess would only follow one step of the first stage later,
/// so it saves min(1 / r, 0.75 T). Its cost is its latency and a row at every stage, or, in a full run, the least probable guess that it
/// replaces. If this is the last chance, later guesses may make the wait worthwhile.
bool worth_waiting(const TargetTimes& target, const RootRun& run, const AwaitedSource& source);

}  // namespace yamata
