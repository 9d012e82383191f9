#pragma once
// The messages of a pipeline: the ordered stream of runs and cache operations, their activations and logits, and cancelled runs.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cache/cache_operation.hpp"
#include "mpi/protocol/byte_stream.hpp"

namespace yamata {

/// How a cancellation reaches the stages after the first.
enum class CancelRoute : std::uint8_t {
  kDirect,   ///< from the head to every stage at once
  kBackward  ///< from the head to the last stage, then from each stage to the one before it (PipeInfer)
};

}  // namespace yamata

namespace yamata::wire {

/// One entry of the ordered stream: cache operations, then a run if there are tokens.
struct Record {
  std::vector<CacheOperation> operations;
  std::uint64_t run = 0;  ///< ascending
  std::vector<std::int32_t> tokens;
  std::vector<Placement> placements;         ///< one per token
  std::vector<std::int32_t> logit_rows;      ///< rows whose logits are requested
  std::int32_t best = 0;                     ///< only this many of the highest logits per row; 0: those of the whole vocabulary
  bool sums = false;                         ///< with them, Rows::sums
  std::int32_t likely_row = -1;              ///< as in StageBatch
  std::vector<std::int32_t> feature_rows;    ///< rows whose features are requested: hidden states of some layers
  std::vector<std::int32_t> feature_layers;  ///< which layers: as in StageBatch
  std::vector<float> features;               ///< that come with the tokens, as in StageBatch
  bool has_run() const { return !tokens.empty(); }
  /// Number of feature rows of the layers below `layer`.
  std::size_t features_below(std::int64_t layer) const {
    const auto below = std::count_if(feature_layers.begin(), feature_layers.end(), [&](std::int32_t l) { return l < layer; });
    return feature_rows.size() * static_cast<std::size_t>(below);
  }
};

/// Rows of floats of a run: activations or logits, and features; empty if the run was cancelled. Points into the message.
struct Rows {
  std::uint64_t run = 0;
  bool skipped = false;
  std::span<const float> values;
  std::span<const std::int32_t> tokens{};  ///< if only the best logits were requested: their token ids; -1: no more usable tokens
  std::uint32_t vocabulary = 0;            ///< then the number of tokens in the vocabulary
  std::span<const float> sums{};           ///< then, if requested: per row, log of the sum of exp(logit) of the sender's tokens
  std::span<const float> features{};       ///< [feature layers so far][feature_rows][dim]
};

/// Runs that are no longer needed. One that stages pass on may come after its job has ended.
struct Cancel {
  std::vector<std::uint64_t> runs;
  CancelRoute route = CancelRoute::kDirect;
  std::int64_t job = 0;  ///< see Start
};

Bytes encode(const Record&);
Bytes encode(const Rows&);
Bytes encode(const Cancel&);

// Throw ClusterError if the bytes are not exactly one message of their kind.
Record decode_record(std::span<const std::byte>);
Rows decode_rows(std::span<const std::byte>);  ///< points into the bytes
Cancel decode_cancel(std::span<const std::byte>);

}  // namespace yamata::wire
