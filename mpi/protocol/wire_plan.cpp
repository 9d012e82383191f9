#include "mpi/protocol/wire_plan.hpp"

namespace yamata::wire {

std::vector<std::vector<int>> PipelinePlan::stages() const {
  std::vector<std::vector<int>> stages;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (i == 0 || layers[i].begin != layers[i - 1].begin) stages.emplace_back();
    stages.back().push_back(ranks[i]);
  }
  return stages;
}

GroupMember PipelinePlan::member(std::size_t place) const {
  GroupMember member{{}, 0, nullptr};
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (layers[i].begin != layers[place].begin) continue;
    if (i == place) member.member = static_cast<int>(member.shares.size());
    member.shares.push_back(shares.empty() ? 1 : shares[i]);
  }
  return member;
}

Bytes encode(const Start& m) {
  Writer out;
  out.put(m.cache_types)
      .put(m.batch)
      .put(m.trace)
      .put_text(m.head_host)
      .put(m.head_time_us)
      .put(m.job)
      .put(m.draft.width)
      .put(m.draft.children)
      .put(m.draft.credit)
      .put(m.draft.threshold)
      .put(m.draft.branches)
      .put(m.draft.accept)
      .put(m.draft.split)
      .put_all(std::span<const StaticTree::Node>(m.draft.shape.nodes))
      .put(m.draft.depth)
      .put(m.draft.sequences)
      .put(m.draft.fixed_sequences)
      .put(static_cast<std::uint64_t>(m.pipelines.size()));
  for (const PipelinePlan& p : m.pipelines)
    out.put(p.model)
        .put_all(std::span<const std::int32_t>(p.ranks))
        .put_all(std::span<const LayerRange>(p.layers))
        .put(p.cells)
        .put(p.sequences)
        .put_all(std::span<const std::uint8_t>(p.packed))
        .put_all(std::span<const double>(p.shares))
        .put(p.window_cells)
        .put(p.checkpoints)
        .put_all(std::span<const std::int32_t>(p.first_layers))
        .put(p.slots)
        .put(p.slot_sequences);
  return out.take();
}

Start decode_start(std::span<const std::byte> bytes) {
  Reader in(bytes);
  Start m;
  m.cache_types = in.get<CacheTypes>();
  m.batch = in.get<std::int32_t>();
  m.trace = in.get<std::uint8_t>() != 0;
  m.head_host = in.get_text();
  m.head_time_us = in.get<std::int64_t>();
  m.job = in.get<std::int64_t>();
  m.draft.width = in.get<std::int32_t>();
  m.draft.children = in.get<std::int32_t>();
  m.draft.credit = in.get<std::int32_t>();
  m.draft.threshold = in.get<float>();
  m.draft.branches = in.get<std::int32_t>();
  m.draft.accept = in.get<float>();
  m.draft.split = in.get<float>();
  m.draft.shape.nodes = in.get_all<StaticTree::Node>();
  m.draft.depth = in.get<std::int32_t>();
  m.draft.sequences = in.get<std::int32_t>();
  m.draft.fixed_sequences = in.get<std::uint8_t>() != 0;
  // least bytes of a plan: its numbers and five lengths
  constexpr std::size_t kMinBytes = 7 * sizeof(std::int32_t) + 5 * sizeof(std::uint64_t);
  m.pipelines.resize(in.count(kMinBytes));
  for (PipelinePlan& p : m.pipelines) {
    p.model = in.get<std::int32_t>();
    p.ranks = in.get_all<std::int32_t>();
    p.layers = in.get_all<LayerRange>();
    p.cells = in.get<std::int32_t>();
    p.sequences = in.get<std::int32_t>();
    p.packed = in.get_all<std::uint8_t>();
    p.shares = in.get_all<double>();
    p.window_cells = in.get<std::int32_t>();
    p.checkpoints = in.get<std::int32_t>();
    p.first_layers = in.get_all<std::int32_t>();
    p.slots = in.get<std::int32_t>();
    p.slot_sequences = in.get<std::int32_t>();
  }
  in.end();
  return m;
}

}  // namespace yamata::wire
