#pragma once
// Which layout is the fastest: each is played in virtual time, by the program's own head, stages and drafters.
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "launch/planning/group_cost.hpp"
#include "launch/planning/layout_candidates.hpp"
#include "mpi/planning/memory_plan.hpp"
#include "mpi/simulation/virtual_cluster.hpp"

namespace yamata {

/// What is to be run, and the text that it is planned for.
struct PlannedJob {
  const ModelFile& target;
  const ModelFile* draft = nullptr;  ///< nullptr: none
  SpeculationOptions speculation{};
  CacheTypes cache_types{};
  int context = kDefaultContext, batch = 64;
  int prompt = 64, generate = 128;               ///< tokens
  double acceptance = 0.65, acceptance4 = 0.85;  ///< share of the tokens that are the draft's first choice, that are among its first four
  double over_confidence = 0;                    ///< how far its probabilities are too sure, see TextOptions
  int draws = 3;                                 ///< texts that the best layouts are played for
  std::optional<Strategy> strategy{};            ///< the only one that may be; nothing: any
  std::vector<GroupCost> group_costs{};          ///< ascending; none: as the speeds and the network say
  bool guesses_text = false;                     ///< where nobody drafts, what texts repeat is guessed; forecasts are of one that does not
  bool draft_on_head = false;                    ///< a draft takes turns with the first machine's layers, or nobody drafts
};

/// Of the tokens that are not a draft's first choice 58 % are among its next three, where nothing else is known.
constexpr double among_first_four(double acceptance) { return 1 - 0.42 * (1 - acceptance); }

/// How a layout would do.
struct Forecast {
  LayoutCandidate candidate;
  double tokens_per_s = 0, ttft_s = 0;
  double busiest_stage = 0, drafter_busy = 0;  ///< shares of the time after the first token
  double meeting_share = 0;                    ///< of a one-row run's time in the stage that spends most of it in meetings; 0: no groups
  std::vector<std::uint64_t>
      rank_bytes{};  ///< weights, cache and buffers, as the candidate's layout has the ranks, models after each other
  bool fits = true;  ///< into the hosts' memory
};

/// Forecasts of all candidates, the fastest first; none where no host has room for its part. Those that do not fit are left out where any
/// does. `most`: at most so many, but always the fastest of one host. The screening plays a short text, the best are played at length.
std::vector<Forecast> plan_layouts(const PlannedJob& job, std::span<const PlannedHost> hosts, const simulation::NetworkOptions& network,
                                   std::size_t most);

/// One of them, for `generate` tokens, the mean of `draws` texts.
Forecast forecast(const LayoutCandidate& candidate, const PlannedJob& job, std::span<const PlannedHost> hosts,
                  const simulation::NetworkOptions& network, int generate, int draws);

/// What bounds it, in words.
std::string reason(const Forecast& forecast);

}  // namespace yamata
