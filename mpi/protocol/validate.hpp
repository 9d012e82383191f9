#pragma once
// Checks whether a decoded message has possible values: every number that the receiver uses must be in its range. Call it once, where the
// message is received. The cost of a run's message is O(rows); activations and logits are not read.
//
// Each function throws ClusterError, which names the rank `from` that sent the message.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "mpi/protocol/wire.hpp"

namespace yamata::wire {

/// What a stage knows when a record arrives.
struct RecordLimits {
  std::int32_t cells = 0, sequences = 1;  ///< of its cache
  std::uint64_t last_run = 0;             ///< id of the latest run received; 0: none
  std::int64_t features = 0;              ///< floats that come with each token of the text
};
void validate(const Record& record, const RecordLimits& limits, int from);

/// Floats of a row: of activations between two stages, and of features.
struct RowWidths {
  std::int64_t activations = 0, hidden = 0;
};
/// `rows`: the activations of this record's run, for each token and for each of its features below `layer`, the next layer; or none if the
/// run was skipped.
void validate_activations(const Rows& rows, const Record& record, RowWidths widths, std::int64_t layer, int from);

/// What the leader of a pipeline expects of a run's result.
struct ResultLimits {
  std::uint64_t run = 0;
  std::size_t logit_rows = 0, feature_rows = 0, feature_layers = 0;
  std::int32_t best = 0;        ///< as in Record
  bool sums = false;            ///< as in Record
  bool may_skip = false;        ///< the run was cancelled
  std::int64_t width = 0;       ///< floats of a row of features, per layer
  std::int64_t vocabulary = 0;  ///< of the model
  /// Whether the logits of the whole vocabulary are sent, because all or most of them were requested. The last stage decides likewise.
  bool all_logits() const { return best == 0 || 2 * std::int64_t{best} >= vocabulary; }
  std::size_t feature_floats() const { return feature_rows * feature_layers * static_cast<std::size_t>(width); }
};
void validate(const Rows& rows, const ResultLimits& limits, int from);
/// Validates the part of the result that one rank of a group sends: its part of the vocabulary and, if `features`, the features.
void validate_part(const Rows& rows, const ResultLimits& limits, bool features, int from);

/// Ids of cancelled runs. Ids of runs that are over or have not arrived yet are valid.
void validate_cancel(std::span<const std::uint64_t> runs, int from);

/// What a drafter knows when a commit arrives.
struct CommitLimits {
  std::int32_t position = 0;    ///< at which the text continues; another text begins at 0
  std::int32_t cells = 0;       ///< of its cache
  std::int64_t vocabulary = 0;  ///< of its model
  std::int64_t features = 0;    ///< floats that come with each token of the text
};
void validate(const Commit& commit, const CommitLimits& limits, int from);

/// What the head knows when guesses arrive, about the text that they continue.
struct GuessLimits {
  std::uint64_t epoch = 0;  ///< the latest epoch sent to the drafter
  std::size_t text_tokens = 0;
  std::int64_t vocabulary = 0;  ///< of the draft; 0: unknown
};
void validate(const Guesses& guesses, const GuessLimits& limits, int from);

/// If the protocol differs, only its version is checked.
void validate(const Hello& hello, int from);
void validate(const Measured& measured, int from);
/// `layer` was sent to `rank`, one of its members, in a job of `ranks` ranks.
void validate(const BenchmarkRequest& layer, int ranks, int rank, int from);
void validate(const BenchmarkResult& took, int from);
/// The plan of a job of `ranks` ranks: every rank has at most one stage of each model. A rank with stages of several models must be the
/// first rank of each of these pipelines.
void validate(const Start& start, int ranks, int from);
/// The stages of a valid plan must have all `layers` of the model.
void validate_layers(const PipelinePlan& plan, std::int64_t layers, int from);
void validate(const Heartbeat& heartbeat, int from);
void validate(const Report& report, int from);
/// An exit code.
void validate_stop(std::int32_t code, int from);

}  // namespace yamata::wire
