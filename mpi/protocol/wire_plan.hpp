#pragma once
// The plan of a job: which rank has which layers of which model.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cache/kv_store.hpp"
#include "mpi/protocol/byte_stream.hpp"
#include "src/model/stage_model.hpp"
#include "src/speculation/draft_options.hpp"

namespace yamata::wire {

/// Which weights of a rank are packed for its compute units as they are loaded.
enum class Packed : std::uint8_t {
  kNone,
  kAll,
  kFirstLayers  ///< the layers that one of its devices computes alone
};

/// The ranks of one model, in the order of its stages. Adjacent ranks with the same layers share them: they are a group.
struct PipelinePlan {
  std::int32_t model = 0;           ///< 0: the target; 1, 2, ...: the drafters' models
  std::vector<std::int32_t> ranks;  ///< the first leads
  std::vector<LayerRange> layers;   ///< per rank
  std::int32_t cells = 0, sequences = 1;
  std::vector<std::uint8_t> packed{};        ///< per rank: Packed
  std::vector<double> shares{};              ///< per rank: share of its layers' columns, within its group; empty: no groups
  std::int32_t window_cells = 0;             ///< as in ContextOptions
  std::int32_t checkpoints = 0;              ///< as in TextSlots
  std::vector<std::int32_t> first_layers{};  ///< per rank: how many of its first layers its device computes alone; empty: none
  std::int32_t slots = 1;                    ///< texts at a time
  std::int32_t slot_sequences = 1;           ///< of each; kept texts have those behind them

  /// The sequences of the text in this slot: the first holds it, each other may hold a path of guesses.
  SequenceRange sequences_of(std::int32_t slot) const { return {slot * slot_sequences, (slot + 1) * slot_sequences}; }
  /// Those of kept texts, or of checkpoints.
  SequenceRange kept_sequences() const { return {slots * slot_sequences, sequences}; }
  TextSlots texts() const { return {slots, slot_sequences, checkpoints}; }

  /// Index of a rank in `ranks`, if it is there.
  std::optional<std::size_t> place_of(int rank) const {
    const auto found = std::find(ranks.begin(), ranks.end(), rank);
    if (found == ranks.end()) return std::nullopt;
    return static_cast<std::size_t>(found - ranks.begin());
  }
  /// The ranks of each stage.
  std::vector<std::vector<int>> stages() const;
  /// The part of its stage's layers that the rank at this index holds.
  GroupMember member(std::size_t place) const;
};

struct Start {
  std::vector<PipelinePlan> pipelines;  ///< the target's, then one per drafter
  CacheTypes cache_types;
  std::int32_t batch = 64;  ///< most prompt tokens per run
  bool trace = false;
  std::string head_host;
  std::int64_t head_time_us = 0;  ///< the head's clock when this arrives, if the link is known; else when it was sent
  std::int64_t job = 0;           ///< differs from that of the jobs before
  DraftOptions draft;
};

Bytes encode(const Start&);
/// Throws ClusterError if the bytes are not exactly one plan.
Start decode_start(std::span<const std::byte>);

}  // namespace yamata::wire
