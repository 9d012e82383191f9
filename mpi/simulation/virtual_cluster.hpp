#pragma once
// A whole job in virtual time: the program's own head, stages and drafters, on machines and a network described by numbers.
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "mpi/decoding/decoder.hpp"
#include "mpi/simulation/virtual_network.hpp"
#include "src/simulation/recorded_text.hpp"

namespace yamata::simulation {

/// Everything a run depends on: the same scenario gives the same outcome to the nanosecond.
struct Scenario {
  std::vector<Nanoseconds> stages;      ///< what one row takes on each rank of the target, of its layers and columns
  std::vector<int> groups;              ///< ranks that share each stage, in order; empty: one each
  double meeting_bytes = 27'000;        ///< of a row in a layer, see shard.hpp; a 7B model's
  std::map<int, Nanoseconds> meetings;  ///< what one of a one-row run takes, by number of members, where that was measured
  std::vector<Nanoseconds> drafters;    ///< what one evaluation of one row takes on each drafter, each on a rank of its own
  bool draft_on_head = false;           ///< the only drafter takes turns with rank 0's layers instead
  std::vector<double> slowness;         ///< per rank; as many as there are ranks
  WidthCost width, draft_width;         ///< of the target and the drafters
  int layers = 32;                      ///< of the target: a cancelled run is left between the operations of its layers
  NetworkOptions network;
  RowWidths widths;
  Nanoseconds head = 50'000;  ///< the head's own work per token of text
  TextOptions text;
  std::int32_t prompt = 64;              ///< tokens
  std::optional<Recording> recording;    ///< its prompt and text go before what is drawn
  std::int32_t drafter_dies_after = -1;  ///< tokens of text, the first drafter, and nobody notices; -1: it lives
  DecodeOptions decode;
  DraftOptions draft;
};

struct Outcome {
  std::vector<std::int32_t> tokens;
  bool exact = false;                ///< they are what the target alone would have written
  Nanoseconds prefill = 0;           ///< until the first token
  std::vector<Nanoseconds> arrived;  ///< when each token was known, from then on
  Decoder::Counters counters;
  std::vector<double> stage_busy, drafter_busy;  ///< shares of the time after the first token
  double first_choices = 0;                      ///< share of the tokens that were the first drafter's first choice
};

/// What the meetings of a group take in one run: some time whatever its width, and some per row.
struct MeetingTime {
  Nanoseconds run = 0, row = 0;
};
/// Of a group of `members` ranks that hold one of `stages` equal stages: kMeetingsPerLayer times per layer all send each other their
/// slices, each on its own link; as measured, else as the numbers of the network say.
MeetingTime meeting_time(const Scenario& scenario, int members, int stages);

/// Throws UsageError where the options contradict each other, ClusterError where the run comes to a halt.
Outcome play(const Scenario& scenario);

}  // namespace yamata::simulation
