// Divides operations of layers with states, and gates of heads, among the units: by heads.
#include <algorithm>
#include <utility>

#include "node/units/op_cutter.hpp"

namespace yamata {
namespace {

std::int64_t rows_of(const StatePlan& plan) {
  return std::ranges::count_if(plan.steps, [](const StateStep& step) { return step.row >= 0; });
}

std::size_t float_bytes(std::int64_t floats) { return static_cast<std::size_t>(floats) * sizeof(float); }

}  // namespace

/// The cut with which these heads were written since the last synchronization, if they stayed whole.
Cut OpCutter::heads_as_written(const float* x, std::int64_t heads, std::int64_t dim) const {
  Cut cut = cut_as_written({x}, heads * dim);
  if (std::ranges::any_of(cut.at, [&](std::int64_t at) { return at % dim != 0; })) return cut_of(heads, 1, shares_.of(UnitShares::kOther));
  for (std::int64_t& at : cut.at) at /= dim;
  return cut;
}

/// Several heads read what is computed once for each key head, which may be on another unit.
void OpCutter::cut_op(const StateInputsOp& op) {
  const auto shares = shares_.of(UnitShares::kOther);
  const Cut keys = cut_of(op.shape.key_heads, 1, shares), heads = cut_of(op.shape.heads, 1, shares);
  const std::int64_t rows = rows_of(*op.plan);
  access(std::array{UnitAccess::whole(op.x, float_bytes(rows * op.shape.channels()), false),
                    UnitAccess::whole(op.gates, float_bytes(rows * op.gates_row), false),
                    UnitAccess::whole(op.out, float_bytes(rows * op.shape.input_floats()), true)});
  for (std::size_t unit = 0; unit < units_.size(); ++unit) {
    StateInputsOp part = op;
    part.keys = keys.of(unit), part.heads = heads.of(unit);
    if (keys.count(unit) + heads.count(unit) > 0) lists_[unit].push_back(part);
  }
}

/// One unit notes the end: if a list is stopped, then by all units together, before this operation or after it.
template <class AnyOp>
void OpCutter::add_by_heads(const AnyOp& op, const Cut& heads) {
  bool* finished = op.finished;
  for (std::size_t unit = 0; unit < units_.size(); ++unit) {
    if (heads.count(unit) == 0) continue;
    AnyOp part = op;
    part.which = heads.of(unit);
    part.finished = std::exchange(finished, nullptr);
    lists_[unit].push_back(part);
  }
}

template <class AnyRule>
void OpCutter::cut_rule(const AnyRule& op) {
  const Cut heads = cut_of(op.shape.heads, 1, shares_.of(UnitShares::kOther));
  const std::int64_t rows = rows_of(*op.plan), width = op.shape.values();
  access(std::array{UnitAccess::whole(op.inputs, float_bytes(rows * op.shape.input_floats()), false),
                    UnitAccess::columns(op.out, rows, width, width, heads.scaled(op.shape.dim), true)});
  add_by_heads(op, heads);
}

void OpCutter::cut_op(const DeltaRuleOp& op) { cut_rule(op); }

void OpCutter::cut_op(const ScanOp& op) { cut_rule(op); }

void OpCutter::cut_op(const GatedConvolutionOp& op) {
  const Cut heads = cut_of(op.shape.heads, 1, shares_.of(UnitShares::kOther));
  const std::int64_t rows = rows_of(*op.plan), width = op.shape.channels();
  access(std::array{UnitAccess::whole(op.x, float_bytes(3 * rows * width), false),
                    UnitAccess::columns(op.out, rows, width, width, heads.scaled(op.shape.dim), true)});
  add_by_heads(op, heads);
}

void OpCutter::cut_op(const HeadGateOp& op) {
  const Cut heads = heads_as_written(op.x, op.heads, op.dim);
  const std::int64_t width = op.heads * op.dim, gate_width = op.heads * op.gate_head;
  access(std::array{
      UnitAccess::columns(op.x, op.rows, width, width, heads.scaled(op.dim), true),
      UnitAccess::columns(op.gate - (op.gate_head - op.dim), op.rows, op.gate_row, gate_width, heads.scaled(op.gate_head), false)});
  for (std::size_t unit = 0; unit < units_.size(); ++unit) {
    HeadGateOp part = op;
    part.which = heads.of(unit);
    if (heads.count(unit) > 0) lists_[unit].push_back(part);
  }
}

void OpCutter::cut_op(const UngateOp& op) {
  const Cut heads = heads_as_written(op.x, op.heads, 2 * op.dim);
  const std::int64_t width = op.heads * op.dim;
  access(std::array{UnitAccess::columns(op.x, op.rows, 2 * width, 2 * width, heads.scaled(2 * op.dim), false),
                    UnitAccess::columns(op.out, op.rows, width, width, heads.scaled(op.dim), true)});
  for (std::size_t unit = 0; unit < units_.size(); ++unit) {
    UngateOp part = op;
    part.which = heads.of(unit);
    if (heads.count(unit) > 0) lists_[unit].push_back(part);
  }
}

}  // namespace yamata
