#include "node/units/op_cutter.hpp"

#include <algorithm>

#include "node/cpu/slice_layout.hpp"

namespace yamata {

OpCutter::OpCutter(std::span<const std::unique_ptr<ComputeUnit>> units, ComputeUnit& memory, UnitBarrier& barrier, UnitShares& shares)
    : units_(units),
      barrier_(barrier),
      shares_(shares),
      member_(barrier, memory),
      layouts_(units),
      lists_(units.size()),
      ends_(units.size()),
      partials_(memory) {
  for (const auto& unit : units_) inputs_.emplace_back(*unit);
}

void OpCutter::cut(std::span<const Op> ops) {
  for (auto& list : lists_) list.clear();
  for (auto& ends : ends_) ends.clear();
  labels_.clear(), accesses_.clear(), layouts_.clear(), lone_cuts_.clear();
  label_.reset(), heads_.reset();
  slice_bytes_ = 0;
  ops_ = ops;
  reserve();
  for (at_ = 0; at_ < ops.size(); ++at_) {
    std::visit([&](const auto& op) { cut_op(op); }, ops[at_]);
    for (std::size_t unit = 0; unit < lists_.size(); ++unit) ends_[unit].push_back(lists_[unit].size());
  }
  if (label_) add_barrier();  // so that it is known which unit came last
  member_.reserve(slice_bytes_);
}

/// Allocates memory whose address must not change once operations refer to it, and finds the group of the list's exchanges.
void OpCutter::reserve() {
  GroupExchange* group = nullptr;
  std::size_t inputs = 0, partials = 0;
  for (const Op& any : ops_) {
    if (const auto* gather = std::get_if<AllGatherOp>(&any)) group = gather->share.group;
    if (const auto* norm = std::get_if<NormOp>(&any); norm && norm->share.group) group = norm->share.group;
    if (const auto* op = std::get_if<LinearOp>(&any)) {
      if (op->share.group) group = op->share.group;
      if (needs_floats(*op)) inputs = std::max(inputs, static_cast<std::size_t>(op->rows * op->cols));
    }
    if (const auto* op = std::get_if<AttentionOp>(&any)) {
      const std::int64_t states = segments_of(*op, shares_.of(label_of(*op))) * op->rows * op->q_heads;
      partials = std::max(partials, static_cast<std::size_t>(states * (op->head_dim + 2)));
    }
  }
  for (FloatBuffer& input : inputs_) input.reserve(inputs);
  partials_.reserve(partials);
  member_.begin(group);
  in_group_ = group != nullptr;
}

std::size_t OpCutter::ended(std::size_t unit, std::size_t of_its_own) const {
  return static_cast<std::size_t>(std::ranges::upper_bound(ends_[unit], of_its_own) - ends_[unit].begin());
}

/// Separates the next operation from one with a label, where the times of all kinds of work are needed.
void OpCutter::begin_labelled() {
  if (apart_ && label_) add_barrier();
}

/// Gives the work up to the next synchronization a label, and records its division.
void OpCutter::labelled(int label, const Cut& cut, std::int64_t count) {
  std::array<double, kMaxUnits> fractions{};
  for (std::size_t unit = 0; unit < units_.size(); ++unit)
    fractions[unit] = static_cast<double>(cut.count(unit)) / static_cast<double>(count);
  labelled(label, fractions);
}

void OpCutter::labelled(int label, std::span<const double> fractions) {
  label_ = label_ ? UnitShares::kOther : label;
  shares_.given(label, fractions.first(units_.size()));
}

// Synchronizations.

void OpCutter::access(std::span<const UnitAccess> accesses) {
  if (accesses_.conflicts(accesses)) add_barrier();
  accesses_.add(accesses);
}

void OpCutter::add_barrier() {
  for (std::size_t unit = 0; unit < lists_.size(); ++unit) lists_[unit].push_back(BarrierOp{&barrier_, static_cast<int>(unit)});
  after_barrier();
}

/// The last operation synchronizes the units.
void OpCutter::after_barrier() {
  labels_.push_back(label_.value_or(UnitShares::kOther));
  label_.reset();
  accesses_.clear();
}

/// The exchange with which a unit gathers columns that are shared as `share` says.
GroupExchange& OpCutter::units_of(const SharedColumns& share, std::size_t unit) {
  return share.group ? member_.in_group(static_cast<int>(unit)) : member_.among_units(static_cast<int>(unit));
}

std::span<const std::int64_t> OpCutter::lone_cuts(std::int64_t cols) {
  return lone_cuts_.emplace_back(std::array<std::int64_t, 2>{0, cols});
}

}  // namespace yamata
