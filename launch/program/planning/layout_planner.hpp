#pragma once
// Finds the fastest layout: each one is simulated in virtual time, with the program's own head, stages and drafters.
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "launch/program/planning/group_cost.hpp"
#include "launch/program/planning/layout_candidates.hpp"
#include "mpi/planning/memory_plan.hpp"
#include "mpi/simulation/virtual_cluster.hpp"

namespace yamata {

/// Share of the tokens that are the first choice of a draft of which nothing is known.
constexpr double kUsualAcceptance = 0.65;

/// The job to plan, and its texts.
struct PlannedJob {
  const ModelFile& target;
  const ModelFile* draft = nullptr;  ///< nullptr: none
  SpeculationOptions speculation{};
  CacheTypes cache_types{};
  int context = kDefaultContext, batch = 64;
  int prompt = 64, generate = 128;  ///< tokens of each text
  int requests = 1;                 ///< texts at a time
  double acceptance = kUsualAcceptance,
         acceptance4 = 0.85;             ///< share of the tokens that are the draft's first choice, or in its first four
  double over_confidence = 0;            ///< of the draft's probabilities, see TextOptions
  double draft_cost = 1;                 ///< of an evaluation, see FirstChoices
  int draws = 3;                         ///< number of texts for which the best layouts are simulated
  std::optional<Strategy> strategy{};    ///< the only allowed one; nothing: any
  std::vector<GroupCost> group_costs{};  ///< ascending; empty: predicted from speeds and network
  /// guess from suffixes of the text if there is no drafter; forecasts assume a text without repetitions
  bool guesses_text = false;
  bool draft_on_head = false;                      ///< a draft shares the first machine's unit with its layers, or there is no drafter
  const std::atomic<bool>* interrupted = nullptr;  ///< if this becomes true, planning throws Interrupted
  std::function<double(const LayoutCandidate&)> correction{};  ///< factor for its forecast, from earlier jobs; empty: 1
};

/// Default: 58 % of the tokens that are not a draft's first choice are among its next three.
constexpr double among_first_four(double acceptance) { return 1 - 0.42 * (1 - acceptance); }

/// Bytes of weights that a token reads.
double token_bytes(const ModelFile& model);

/// The predicted performance of a layout.
struct Forecast {
  LayoutCandidate candidate;
  double tokens_per_s = 0;                     ///< of all texts
  double ttft_s = 0;                           ///< until the first token; of several texts that begin together, the median
  double correction = 1;                       ///< factor contained in tokens_per_s, from earlier jobs
  double busiest_stage = 0, drafter_busy = 0;  ///< shares of the time after the first token
  /// share of a one-row run's time that is spent in exchanges, in the stage where it is largest; 0: no groups
  double exchange_share = 0;
  std::vector<std::uint64_t> rank_bytes{};  ///< weights, cache and buffers, in the order of the candidate layout's ranks, model after model
  bool fits = true;                         ///< into the hosts' memory
};

/// Forecasts of all candidates, the fastest first; empty if no host can hold its part. Candidates that do not fit are omitted if any other
/// does. `most`: the largest number of forecasts, but the fastest one of a single host is always included. A first pass simulates a short
/// text; the best candidates are simulated for the whole length.
std::vector<Forecast> plan_layouts(const PlannedJob& job, std::span<const PlannedHost> hosts, const simulation::NetworkOptions& network,
                                   std::size_t most);

/// Forecast of one candidate for `generate` tokens: the mean over `draws` texts, or over fewer if several are simulated at a time. In a
/// simulation every token of a text takes equally long, wherever it stands; so of long texts a few hundred tokens are simulated, and the
/// time of the rest of a long prompt follows from them.
Forecast forecast(const LayoutCandidate& candidate, const PlannedJob& job, std::span<const PlannedHost> hosts,
                  const simulation::NetworkOptions& network, int generate, int draws);

/// What limits its speed, in words.
std::string reason(const Forecast& forecast);

}  // namespace yamata
