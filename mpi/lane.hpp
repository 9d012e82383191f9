#pragma once
// The ranks of one model and the tags they speak with.
#include "mpi/transport.hpp"

namespace yamata {

/// Tags of a pipeline's messages: a rank may lead a draft pipeline and be a stage of the target's.
struct Lane {
  Tag record, activations, logits, cancel;
  bool carries(Tag tag) const { return tag == record || tag == activations || tag == logits || tag == cancel; }
};
inline constexpr Lane kTargetLane{Tag::kRecord, Tag::kActivations, Tag::kLogits, Tag::kCancel};
inline constexpr Lane kDraftLane{Tag::kDraftRecord, Tag::kDraftActivations, Tag::kDraftLogits, Tag::kDraftCancel};

/// Stages on consecutive ranks; the first leads.
struct PipelineRanks {
  Lane lane = kTargetLane;
  int first = 0, count = 1;
  int last() const { return first + count - 1; }
};

}  // namespace yamata
