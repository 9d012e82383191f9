#pragma once
// The messages between the head and a drafter: the text, and guesses of how it continues.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "mpi/protocol/byte_stream.hpp"

namespace yamata::wire {

/// New tokens of the text, from which the drafters continue.
struct Commit {
  std::uint64_t request = 0;  ///< whose text it is; another one begins at position 0
  std::uint64_t epoch = 0;    ///< counts the commits of the request
  std::int32_t position = 0;  ///< of the first token
  std::vector<std::int32_t> tokens{};
  std::int32_t min_drafts = 0;     ///< if the head waits for guesses: number of guesses that make the answer complete; 0: guess without end
  float min_path_probability = 0;  ///< least path probability of a node that is worth an evaluation of the draft
  bool resend = false;             ///< all guesses sent before are forgotten: send those that are still valid again
  std::int32_t model = 1;          ///< which of the rank's drafts is meant: its model number in the plan
  /// For heads: the target's features of the token before each of these tokens; none for the text's first token.
  std::vector<float> features{};
  bool ended = false;  ///< the text is over, and no tokens come with that
};

struct Guess {
  std::uint32_t id = 0, parent = 0;  ///< the drafter's own ids, ascending
  std::int32_t token = 0;
  float probability = 0;
};

struct Guesses {
  std::uint64_t request = 0;  ///< whose text they continue
  std::uint64_t epoch = 0;    ///< the last commit that the drafter knew
  std::uint32_t root = 0;     ///< the drafter's id of the last token of the text
  std::int32_t root_position = 0;
  bool complete = false;    ///< it has as many guesses as the commit asked for, or can make no more
  double evaluation_s = 0;  ///< time of one evaluation of the draft; 0: unknown
  std::int32_t model = 1;   ///< as in Commit
  std::vector<Guess> guesses;
};

Bytes encode(const Commit&);
Bytes encode(const Guesses&);

// Throw ClusterError if the bytes are not exactly one message of their kind.
Commit decode_commit(std::span<const std::byte>);
Guesses decode_guesses(std::span<const std::byte>);

}  // namespace yamata::wire
