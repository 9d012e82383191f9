// Exchanges of a device with others that compute the same layer: members of a group of ranks, other units of the machine.
#include <utility>
#include <vector>

#include "node/cuda/ops/ops.hpp"
#include "node/unit_barrier.hpp"

namespace yamata::cuda {

Slices slices(OpContext& c, const SliceLayout& layout) {
  const std::span<std::byte> shared = layout.share.group->shared_slices(layout.bytes(), c.launcher.exchanges_ahead());
  if (shared.empty()) return {layout, c.memory.mapped_scratch(Scratch::kSlices, layout.bytes())};
  return {layout, c.memory.at(shared.data(), layout.bytes())};
}

bool exchange(OpContext& c, const Slices& slices) {
  GroupExchange& group = *slices.layout.share.group;
  std::vector<std::size_t> ends;
  for (int m = 0; m < group.members(); ++m) ends.push_back(slices.layout.begin(m + 1));
  const std::span<std::byte> all(slices.memory, slices.layout.bytes());
  return c.launcher.barrier([&c, &group, all, ends = std::move(ends)] { return group.all_gather(all, ends, c.wants()); }, true);
}

void put_columns(OpContext& c, const Slices& slices, const CopyArgs& columns) {
  const SliceLayout& layout = slices.layout;
  const int member = layout.share.group->own();
  CopyArgs args = columns;
  args.to = slices.payload<float>(member) + layout.own_first();
  args.to_stride = layout.blocks(member);
  c.kernels().copy(args, c.stream());
  c.check("copying columns to the others");
}

void take_columns(OpContext& c, const Slices& slices, OpRange rows, float* all, std::int64_t cols) {
  const SliceLayout& layout = slices.layout;
  for (int m = 0; m < layout.share.group->members(); ++m) {
    const std::int64_t width = layout.blocks(m);
    c.kernels().copy({.from = slices.payload<float>(m) + rows.begin * width,
                      .up = nullptr,
                      .from_stride = width,
                      .rows = rows.count_of(layout.rows),
                      .cols = width,
                      .to = all + rows.begin * cols + layout.cut(m),
                      .to_stride = cols},
                     c.stream());
    c.check("copying columns of the others");
  }
}

bool run(OpContext& c, const AllGatherOp& op) {
  const Slices all = slices(c, slices_of(op));
  float* x = c.memory.at(op.x, static_cast<std::size_t>(op.rows * op.cols));
  const std::int64_t begin = op.share.begin(), own = op.share.end(op.cols) - begin;
  if (!c.declined) put_columns(c, all, {x + begin, nullptr, op.cols, op.rows, own, nullptr, 0});
  if (!exchange(c, all)) return false;
  take_columns(c, all, op.brings, x, op.cols);
  return true;
}

bool run(OpContext& c, const BarrierOp& op) {
  return c.launcher.barrier([&c, &op] { return op.barrier->wait(op.own, c.wants()); }, false);
}

}  // namespace yamata::cuda
