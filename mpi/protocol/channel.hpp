#pragma once
// The ranks of one model, and the tags of their messages.
#include <algorithm>
#include <vector>

#include "mpi/transport/transport.hpp"

namespace yamata {

/// Tags of a pipeline's messages: a rank may lead a draft pipeline and be a stage of the target's.
struct Channel {
  Tag record, activations, logits, cancel;
  bool carries(Tag tag) const { return tag == record || tag == activations || tag == logits || tag == cancel; }
};
inline constexpr Channel kTargetChannel{Tag::kRecord, Tag::kActivations, Tag::kLogits, Tag::kCancel};
inline constexpr Channel kDraftChannel{Tag::kDraftRecord, Tag::kDraftActivations, Tag::kDraftLogits, Tag::kDraftCancel};

/// Tags of a pipeline within one rank, whose messages stay there; different for each pipeline.
inline Channel own_channel(int model) {
  constexpr int kFirst = 1000;  // larger than all tags of messages between ranks
  const auto tag = [&](int i) { return static_cast<Tag>(kFirst + 4 * model + i); };
  return {tag(0), tag(1), tag(2), tag(3)};
}

/// The stages in pipeline order, and the ranks that share each: one, or a group. The first rank of a stage leads the stage; the first rank
/// of the first stage also leads the pipeline.
struct PipelineRanks {
  Channel channel = kTargetChannel;
  std::vector<std::vector<int>> stages{{0}};
  std::int64_t job = 0;  ///< see wire::Start

  int first() const { return stages.front().front(); }
  int count() const { return static_cast<int>(stages.size()); }
  std::size_t stage_of(int rank) const {
    const auto holds = [&](const std::vector<int>& members) { return std::find(members.begin(), members.end(), rank) != members.end(); };
    return static_cast<std::size_t>(std::find_if(stages.begin(), stages.end(), holds) - stages.begin());
  }
  /// The ranks that share the rank's stage, including itself.
  const std::vector<int>& group(int rank) const { return stages[stage_of(rank)]; }
  bool leads(int rank) const { return group(rank).front() == rank; }
  bool last(int rank) const { return stage_of(rank) + 1 == stages.size(); }
  /// All ranks of the stage after a rank's.
  const std::vector<int>& next(int rank) const { return stages[stage_of(rank) + 1]; }
  /// The rank that sends records and activations to a rank: the leader of the previous stage; for the first stage, its own leader.
  int before(int rank) const {
    const std::size_t stage = stage_of(rank);
    return stages[stage == 0 ? 0 : stage - 1].front();
  }
};

}  // namespace yamata
