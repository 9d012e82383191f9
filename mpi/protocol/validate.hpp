#pragma once
// Whether a message that could be decoded says what can be: every number that the receiver goes by is in its range. To be called once,
// where the message is taken; O(rows) for a run, nothing per byte of activations or logits.
//
// Each throws ClusterError, which names the rank that the message came from (`from`).
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "mpi/protocol/wire.hpp"

namespace yamata::wire {

/// What a stage knows when a record comes.
struct RecordLimits {
  std::int32_t cells = 0, sequences = 1;  ///< of its cache
  std::uint64_t last_run = 0;             ///< id of the latest run that came before; 0: none
  std::int64_t features = 0;              ///< floats that a token of the text comes with
};
void validate(const Record& record, const RecordLimits& limits, int from);

/// `rows` are the activations that belong to this record's run, `width` floats for each token and for each of its features below `layer`,
/// which is the next; or none where it was skipped.
void validate_activations(const Rows& rows, const Record& record, std::int64_t width, std::int64_t layer, int from);

/// What the leader of a pipeline expects of a run.
struct ResultLimits {
  std::uint64_t run = 0;
  std::size_t logit_rows = 0, feature_rows = 0, feature_layers = 0;
  std::int32_t best = 0;        ///< as in Record
  bool may_skip = false;        ///< it was cancelled
  std::int64_t width = 0;       ///< floats of a row of features, of each layer
  std::int64_t vocabulary = 0;  ///< of the model
  std::size_t feature_floats() const { return feature_rows * feature_layers * static_cast<std::size_t>(width); }
};
void validate(const Rows& rows, const ResultLimits& limits, int from);
/// What one rank of a group sends of it: its part of the vocabulary, and, if it is the first, the features.
void validate_part(const Rows& rows, const ResultLimits& limits, bool features, int from);

/// Ids of runs that are cancelled; those that are over, or have not come yet, are proper.
void validate_cancel(std::span<const std::uint64_t> runs, int from);

/// What a drafter knows when a commit comes.
struct CommitLimits {
  std::int32_t position = 0;    ///< where the text must go on; another's begins at 0
  std::int32_t cells = 0;       ///< of its cache
  std::int64_t vocabulary = 0;  ///< of its model
  std::int64_t features = 0;    ///< floats that a token of the text comes with
};
void validate(const Commit& commit, const CommitLimits& limits, int from);

/// What the head knows when guesses come, of the text that they continue.
struct GuessLimits {
  std::uint64_t epoch = 0;  ///< the latest that the drafter was told of
  std::size_t text_tokens = 0;
  std::int64_t vocabulary = 0;  ///< of the draft; 0: not known
};
void validate(const Guesses& guesses, const GuessLimits& limits, int from);

/// Of another protocol only the version is looked at.
void validate(const Hello& hello, int from);
void validate(const Measured& measured, int from);
/// To a rank of a job of `ranks` ranks, which is one of its members.
void validate(const Rehearse& layer, int ranks, int rank, int from);
void validate(const Rehearsed& took, int from);
/// The plan of a job of `ranks` ranks: every rank has at most one stage of each model and leads whatever it shares with another.
void validate(const Start& start, int ranks, int from);
/// The stages of a valid plan have all `layers` of the model.
void validate_layers(const PipelinePlan& plan, std::int64_t layers, int from);
void validate(const Heartbeat& heartbeat, int from);
void validate(const Report& report, int from);
/// An exit code.
void validate_stop(std::int32_t code, int from);

}  // namespace yamata::wire
