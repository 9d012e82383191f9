// What the decoder's guesses are worth and what they cost: rows of a run, and the time that the text waits for a draft.
#include <algorithm>

#include "mpi/decoding/decoder.hpp"

namespace yamata {
namespace {

/// What it is worth that results come a step earlier, in steps: the best, and flat about it, in simulation over acceptance, row cost,
/// draft time and 1 to 13 stages.
constexpr double kLateness = 0.75;

/// What a row beyond `rows` costs at least in the mean of those to come: kernels take rows in tiles.
double least_slope(const std::vector<double>& stretch, std::size_t rows) {
  double least = stretch[rows + 1] - stretch[rows];
  for (std::size_t k = rows + 2; k < stretch.size(); ++k)
    least = std::min(least, (stretch[k] - stretch[rows]) / static_cast<double>(k - rows));
  return least;
}

}  // namespace

/// What guesses beside the tip cost: all of the run is later by the stretch at every stage, and the text meanwhile is what the present
/// rate says. Where no draft is waited for, others may follow the tip, and a guess left out is only put off by a step.
RunCosts Decoder::tip_costs() const {
  const StepCost& cost = target_.stage().cost();
  const double per_step = tempo_.rate() * cost.run_s(1);
  return {cost.stretch(1, options_.policy.draft), target_.ranks().count() * (waits_for_draft() ? per_step : std::max(1.0, per_step)), 0};
}

/// What guesses behind the tip cost. A run that is longer holds every stage up for longer: the text that would be had meanwhile at the
/// present rate, or by iterating before one is known; and its own results come later by that much at each stage, which matters as far as
/// its best guess comes true. A guess left out is only put off by one run.
RunCosts Decoder::guess_costs() const {
  const StepCost& cost = target_.stage().cost();
  const int stages = target_.ranks().count();
  const double rate = tempo_.rate() * cost.run_s(1);
  return {cost.stretch(0, options_.policy.draft), rate > 0 ? rate : 1.0 / stages, kLateness * (stages - 1)};
}

/// Runs that the pipeline holds at a time: one per stage, and those that are on their way between stages.
int Decoder::most_live() const {
  const double one = target_.stage().cost().run_s(1), around = turnaround_.run_s(1);
  const int stages = target_.ranks().count();
  return one > 0 ? std::max(stages, static_cast<int>(around / one)) : stages;
}

/// What a token of the text takes, guesses that cost more than they save aside; 0: not known.
double Decoder::token_s() const {
  const double rate = tempo_.rate(), alone = turnaround_.run_s(1);
  return rate > 0 ? std::min(alone, 1 / rate) : alone;
}

/// For a draft that the text waits for to its end: the least path probability of what it should expand, or nothing where it should be left
/// alone. After a prompt it expands a few nodes, which tells what an evaluation takes, unless it is known to be too large for this rank.
std::optional<float> Decoder::least_worth_drafting(DraftLink& drafter) {
  constexpr float kTheTipAlone = 1, kSome = 0.3f;
  const double hit = drafter.expected_hit_rate();
  if (epoch_ == 1) return drafter.rank() != transport_.rank() || drafter.relative_cost() < hit ? std::optional(kSome) : std::nullopt;
  DraftTimes times{drafter.evaluation_s(token_s()), drafter.evaluation_s(token_s()), 0, token_s()};
  if (drafter.rank() != transport_.rank()) times.first_s = std::max(times.first_s, drafter.tempo().answer_s());
  if (times.next_s <= 0 || times.token_s <= 0) return std::nullopt;
  const double one = target_.stage().cost().run_s(1) * target_.ranks().count();
  times.row_s = least_slope(target_.stage().cost().stretch(1, options_.policy.draft), 0) * one;
  if (!drafter.balance().negative() && most_saved_s(times, hit, options_.policy.draft) > 0)
    return std::min(kTheTipAlone, static_cast<float>(yamata::least_worth_drafting(times, hit)));
  const double catching_up = StepCost::prior(static_cast<int>(drafter.behind(text())));
  return drafter.probes().afford(times.first_s * catching_up) ? std::optional(kTheTipAlone) : std::nullopt;
}

/// How likely a place is at which a drafter may tell something next, below the tip or one of these: the text must come there and go on as
/// nobody has guessed.
double Decoder::open_place(const DraftLink& drafter, std::span<const NodeId> nodes) const {
  double best = 0;
  const auto consider = [&](NodeId id) {
    if (drafter.guesser().continued(runs_.tree(), id)) return;
    double open = runs_.tree().at(id).path_probability;
    for (const NodeId child : runs_.tree().at(id).children) open -= runs_.tree().at(child).path_probability;
    best = std::max(best, open);
  };
  consider(runs_.tree().root().id);
  for (const NodeId id : nodes) {
    if (drafter.guesser().guessed(runs_.tree(), id)) consider(id);
  }
  return best;
}

/// Whether the tip should wait for guesses, which then go in the same run. What waits is the whole text. A guess that comes too late for
/// this run follows a step of the first stage later; with a single stage, or where nothing follows the tip, it is a token of the text that
/// a run has less, and so are those that would have come after it.
bool Decoder::worth_waiting(std::span<const NodeId> nodes, const RunCosts& costs) {
  const double one = target_.stage().cost().run_s(1), rate = tempo_.rate();
  const std::size_t most = costs.stretch.size() - 1;  // guesses of a run
  const bool last_chance = target_.ranks().count() == 1 || options_.strategy == Strategy::kSpeculative;
  if (one <= 0 || rate <= 0 || (nodes.size() >= most && !last_chance)) return false;
  const double longer = nodes.size() < most ? least_slope(costs.stretch, nodes.size()) * one * target_.ranks().count() : 0;
  const double gain = last_chance ? token_s() : std::min(1 / rate, kLateness * one);
  double least = 1;
  for (const NodeId id : nodes) least = std::min<double>(least, runs_.tree().at(id).path_probability);
  return std::any_of(drafters_.begin(), drafters_.end(), [&](DraftLink& drafter) {
    DraftTempo& tempo = drafter.tempo();
    if (!drafter.alive() || drafter.complete(epoch_) || tempo.wait_s() <= 0 || tempo.overdue()) return false;
    const double hit = drafter.guesser().first_choice_rate();
    double likely = open_place(drafter, nodes), wait = tempo.wait_s(), value = 0;
    for (std::size_t k = 0; k < (last_chance ? most : 1) && value <= 0; ++k, wait = tempo.next_s()) {
      likely *= hit;
      const bool full = nodes.size() + k >= most;  // then it takes the place of another
      value += (full ? likely - least : likely) * gain - wait - (full ? 0 : longer);
    }
    return value > 0;
  });
}

}  // namespace yamata
