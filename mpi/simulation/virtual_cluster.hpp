#pragma once
// A whole job in virtual time: the program's own head, stages and drafters, on machines and a network described by numbers.
#include <atomic>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "mpi/decoding/decoder.hpp"
#include "mpi/simulation/virtual_network.hpp"
#include "mpi/simulation/virtual_requests.hpp"
#include "src/simulation/recorded_text.hpp"

namespace yamata::simulation {

/// Everything a run depends on: the same scenario gives the same outcome to the nanosecond.
struct Scenario {
  std::vector<Nanoseconds> stages;            ///< time of one row on each rank of the target, for its layers and columns
  std::vector<int> groups;                    ///< ranks that share each stage, in order; empty: one each
  double exchange_bytes = 27'000;             ///< bytes of the exchanges per row and layer, see shard.hpp; default: a 7B model
  std::map<int, Nanoseconds> exchanges;       ///< time of one exchange in a one-row run, by number of members, if measured
  std::vector<Nanoseconds> drafters;          ///< time of one evaluation of one row on each drafter, each on a rank of its own
  bool draft_on_head = false;                 ///< the only drafter takes turns with rank 0's layers instead
  bool draft_heads = false;                   ///< the drafters are draft heads that read the target's last hidden states
  bool states = false, draft_states = false;  ///< layers of the target, or of the drafts, have states
  std::vector<double> slowness;               ///< per rank; as many as there are ranks
  WidthCost width, draft_width;               ///< of the target and the drafters
  std::vector<WidthCost> rank_widths;         ///< per rank of the target; empty: `width` for all
  int layers = 32;                            ///< of the target; a cancelled run is stopped between the operations of its layers
  NetworkOptions network;
  RowWidths widths;
  Nanoseconds head = 50'000;  ///< the head's own work per token of text
  TextOptions text;
  std::int32_t prompt = 64;              ///< tokens
  int requests = 1;                      ///< in all, with prompts of the same length
  double requests_per_s = 0;             ///< how many come each second, see request_times; 0: all come at the beginning
  int slots = 0;                         ///< texts that are generated at a time, at most; 0: all
  std::optional<Recording> recording;    ///< its prompt and text are used before random text
  std::int32_t drafter_dies_after = -1;  ///< tokens of text after which the first drafter dies unnoticed; -1: never
  DecodeOptions decode;
  DraftOptions draft;
  const std::atomic<bool>* interrupted = nullptr;  ///< if this becomes true, simulate throws Interrupted
};

/// If there are several requests, tokens, prefill and arrived are those of the first.
struct Outcome {
  std::vector<std::int32_t> tokens;
  bool exact = false;                            ///< the texts of all requests are those that the target alone would generate
  Nanoseconds prefill = 0;                       ///< until the first token
  std::vector<Nanoseconds> arrived;              ///< when each token was known, from then on
  std::vector<TimedRequest> requests;            ///< all
  Decoder::Counters counters;                    ///< of all texts
  std::vector<double> stage_busy, drafter_busy;  ///< shares of the time after the first token of all
  std::uint64_t runs_skipped = 0;                ///< cancelled runs that a stage left out or left early, of all stages
  double cancel_latency_s = 0;                   ///< mean time from the head's decision until such a stage knew, without the head's stage
  double first_choices = 0;                      ///< share of the tokens that were the first drafter's first choice
};

/// The time of a group's exchanges in one run: a constant, and a time per row.
struct ExchangeCost {
  Nanoseconds run = 0, row = 0;
};
/// For a group of `members` ranks with one of `stages` equal stages: kExchangesPerLayer times per layer, all members send each other their
/// slices, each on its own link. Uses measured times, else computes them from the network's parameters.
ExchangeCost exchange_cost(const Scenario& scenario, int members, int stages);

/// Throws Interrupted, see Scenario; UsageError if the options contradict each other, ClusterError if the simulated job makes no progress.
Outcome simulate(const Scenario& scenario);

}  // namespace yamata::simulation
