#pragma once
// The ranks of one model and the tags they speak with.
#include <algorithm>
#include <iterator>
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

/// A stage on each rank, in this order; the first leads.
struct PipelineRanks {
  Channel channel = kTargetChannel;
  std::vector<int> ranks{0};

  int first() const { return ranks.front(); }
  int last() const { return ranks.back(); }
  int count() const { return static_cast<int>(ranks.size()); }
  /// The stage after a rank's.
  int next(int rank) const { return *std::next(std::find(ranks.begin(), ranks.end(), rank)); }
  /// That whose records come to a rank: the stage before; the first stage's are its own.
  int before(int rank) const { return rank == first() ? rank : *std::prev(std::find(ranks.begin(), ranks.end(), rank)); }
};

}  // namespace yamata
