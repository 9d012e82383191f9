#include "node/op_cutter.hpp"

#include <algorithm>

#include "node/cpu/slice_layout.hpp"
#include "node/cuts.hpp"

namespace yamata {
namespace {

constexpr std::int64_t kGrain = 32;
constexpr std::size_t kAlignment = 64;

std::size_t aligned(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

OpCutter::OpCutter(std::span<const std::unique_ptr<ComputeUnit>> units, ComputeUnit& memory, UnitBarrier& barrier, UnitShares& shares)
    : units_(units),
      barrier_(barrier),
      shares_(shares),
      member_(barrier, memory),
      lists_(units.size()),
      ends_(units.size()),
      partials_(memory) {
  for (const auto& unit : units_) {
    const auto same = std::ranges::find_if(layout_unit_, [&](const ComputeUnit* other) { return other->isa() == unit->isa(); });
    layouts_.push_back(static_cast<std::size_t>(same - layout_unit_.begin()));
    if (same == layout_unit_.end()) layout_unit_.push_back(unit.get());
    inputs_.emplace_back(*unit);
  }
}

void OpCutter::cut(std::span<const Op> ops) {
  for (auto& list : lists_) list.clear();
  for (auto& ends : ends_) ends.clear();
  labels_.clear(), accesses_.clear(), matrices_.clear(), lone_cuts_.clear();
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

// Division into parts (cuts).

Cut OpCutter::cut_of(std::int64_t count, std::int64_t grain, std::span<const double> shares) const {
  Cut cut;
  cut_by_shares(count, grain, shares, std::span(cut.at).first(units_.size() + 1));
  return cut;
}

Cut OpCutter::scaled(Cut cut, std::int64_t factor) {
  for (std::int64_t& at : cut.at) at *= factor;
  return cut;
}

/// Gives the work up to the next synchronization a label, and records its division.
void OpCutter::labelled(int label, const Cut& cut, std::int64_t count) {
  label_ = label_ ? UnitShares::kOther : label;
  std::array<double, kMaxUnits> fractions{};
  for (std::size_t unit = 0; unit < units_.size(); ++unit)
    fractions[unit] = static_cast<double>(cut.count(unit)) / static_cast<double>(count);
  shares_.given(label, std::span(fractions).first(units_.size()));
}

// Memory accesses of operations, and the synchronizations that they need.

OpCutter::Access OpCutter::columns(const float* base, std::int64_t rows, std::int64_t stride, std::int64_t width, const Cut& cut,
                                   bool writes) {
  const auto* begin = reinterpret_cast<const std::byte*>(base);
  const std::int64_t floats = rows > 0 ? (rows - 1) * stride + width : 0;
  return {begin, begin + static_cast<std::size_t>(floats) * sizeof(float), stride, cut, writes};
}

OpCutter::Access OpCutter::token_rows(const float* base, std::int64_t width, const Cut& cut, bool writes) {
  const auto* begin = reinterpret_cast<const std::byte*>(base);
  return {begin, begin + static_cast<std::size_t>(*std::ranges::max_element(cut.at) * width) * sizeof(float), -1, cut, writes};
}

OpCutter::Access OpCutter::whole(const void* base, std::size_t bytes, bool writes) {
  const auto* begin = static_cast<const std::byte*>(base);
  return {begin, begin + bytes, 0, {}, writes};
}

bool OpCutter::conflicts(const Access& access) const {
  return std::ranges::any_of(accesses_, [&](const Access& before) {
    return (access.writes || before.writes) && access.touches(before) && !access.same_parts(before);
  });
}

void OpCutter::access(std::span<const Access> accesses) {
  if (std::ranges::any_of(accesses, [&](const Access& access) { return conflicts(access); })) add_barrier();
  accesses_.insert(accesses_.end(), accesses.begin(), accesses.end());
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

// Packed weights: a matrix's memory contains all layouts, one after another.

std::size_t OpCutter::packed_before(std::size_t layout, const Matrix& matrix) const {
  std::size_t bytes = 0;
  for (std::size_t before = 0; before < layout; ++before) bytes += aligned(layout_unit_[before]->packed_bytes(matrix));
  return bytes;
}

std::size_t OpCutter::packed_bytes(const Matrix& matrix) const {
  return layout_unit_.size() == 1 ? layout_unit_[0]->packed_bytes(matrix) : packed_before(layout_unit_.size(), matrix);
}

/// `count` matrices in the layout of a unit.
const Matrix* OpCutter::matrices_for(std::size_t unit, const Matrix* first, std::int64_t count) {
  if (layout_unit_.size() == 1 || !first) return first;
  const std::size_t layout = layouts_[unit];
  std::vector<Matrix>& own = matrices_.emplace_back(first, first + count);
  for (Matrix& m : own) {
    if (m.packed) m.packed = layout_unit_[layout]->packed_bytes(m) > 0 ? m.packed + packed_before(layout, m) : nullptr;
  }
  return own.data();
}

/// Each unit packs the rows with which it will most likely multiply, so that they are in the memory of its NUMA node. Units with the same
/// layout share them.
void OpCutter::cut_op(const PackOp& op) {
  const Cut rows = cut_of(op.matrix->rows, kGrain, shares_.of(UnitShares::kOther));
  for (std::size_t layout = 0; layout < layout_unit_.size(); ++layout) {
    if (layout_unit_[layout]->packed_bytes(*op.matrix) == 0) continue;
    std::vector<double> shares;
    std::vector<std::size_t> packers;
    for (std::size_t unit = 0; unit < units_.size(); ++unit) {
      if (layouts_[unit] != layout) continue;
      packers.push_back(unit);
      shares.push_back(static_cast<double>(rows.count(unit)) + 1e-9);
    }
    std::vector<std::int64_t> cuts(packers.size() + 1);
    cut_by_shares(op.matrix->rows, kGrain, shares, cuts);
    for (std::size_t i = 0; i < packers.size(); ++i)
      lists_[packers[i]].push_back(PackOp{op.matrix, op.to + packed_before(layout, *op.matrix), {cuts[i], cuts[i + 1]}});
  }
}

void OpCutter::cut_op(const ReadOp& op) {
  constexpr std::int64_t kPage = 4096;
  const Cut bytes = cut_of(op.own.count_of(std::ssize(op.bytes)), kPage, shares_.of(UnitShares::kOther));
  for (std::size_t unit = 0; unit < units_.size(); ++unit)
    lists_[unit].push_back(ReadOp{op.bytes, {op.own.begin + bytes.at[unit], op.own.begin + bytes.at[unit + 1]}});
}

// Operations on rows of tokens.

void OpCutter::cut_op(const EmbedOp& op) {
  const Cut tokens = cut_of(std::ssize(op.tokens), 1, shares_.of(UnitShares::kOther));
  access(std::array{token_rows(op.out, op.table->cols, tokens, true)});
  for (std::size_t unit = 0; unit < units_.size(); ++unit) {
    if (tokens.count(unit) == 0) continue;
    EmbedOp part = op;
    part.tokens = op.tokens.subspan(static_cast<std::size_t>(tokens.at[unit]), static_cast<std::size_t>(tokens.count(unit)));
    part.out = op.out + tokens.at[unit] * op.table->cols;
    lists_[unit].push_back(part);
  }
}

void OpCutter::cut_op(const GatherOp& op) {
  const Cut rows = cut_of(std::ssize(op.rows), 1, shares_.of(UnitShares::kOther));
  std::int32_t last = -1;
  for (const std::int32_t row : op.rows) last = std::max(last, row);
  access(std::array{whole(op.x, static_cast<std::size_t>((last + 1) * op.dim) * sizeof(float), false),
                    token_rows(op.out, op.dim, rows, true)});
  for (std::size_t unit = 0; unit < units_.size(); ++unit) {
    if (rows.count(unit) == 0) continue;
    lists_[unit].push_back(GatherOp{op.x, op.dim,
                                    op.rows.subspan(static_cast<std::size_t>(rows.at[unit]), static_cast<std::size_t>(rows.count(unit))),
                                    op.out + rows.at[unit] * op.dim});
  }
}

/// In a group, the first unit alone exchanges the columns with the other ranks, because the whole row is needed in any case.
void OpCutter::cut_op(const NormOp& op) {
  if (op.share.group) return cut_alone(op);
  const Cut rows = cut_of(op.rows, 1, shares_.of(UnitShares::kOther));
  const std::int64_t floats = op.rows > 0 ? (op.rows - 1) * op.x_stride + op.cols : 0;
  access(std::array{whole(op.x, static_cast<std::size_t>(floats) * sizeof(float), op.x == op.out),
                    token_rows(op.out, op.out_stride, rows, true)});
  for (std::size_t unit = 0; unit < units_.size(); ++unit) {
    if (rows.count(unit) == 0) continue;
    NormOp part = op;
    part.x = op.x + rows.at[unit] * op.x_stride;
    part.out = op.out + rows.at[unit] * op.out_stride;
    part.rows = rows.count(unit);
    lists_[unit].push_back(part);
  }
}

/// The cut with which these columns were written since the last synchronization; else one by the shares of UnitShares::kOther.
Cut OpCutter::cut_as_written(std::initializer_list<const float*> where, std::int64_t columns) const {
  for (const Access& before : accesses_) {
    const auto* begin = reinterpret_cast<const float*>(before.begin);
    if (before.writes && before.stride > 0 && before.cut.at[units_.size()] == columns && std::ranges::find(where, begin) != where.end())
      return before.cut;
  }
  return cut_of(columns, kGrain, shares_.of(UnitShares::kOther));
}

void OpCutter::cut_op(const AddOp& op) {
  const Cut own = cut_as_written({op.from, op.to}, op.cols);
  const std::int64_t from_rows = op.experts.any() ? op.rows * op.experts.used : op.rows;
  std::vector<Access> accesses{columns(op.to, op.rows, op.to_stride, op.cols, own, true),
                               columns(op.from, from_rows, op.from_stride, op.cols, own, false)};
  if (op.gate) accesses.push_back(whole(op.gate, static_cast<std::size_t>(op.rows) * sizeof(float), false));
  access(accesses);
  for (std::size_t unit = 0; unit < units_.size(); ++unit) {
    AddOp part = op;
    part.to = op.to + own.at[unit];
    part.from = op.from + own.at[unit];
    part.cols = own.count(unit);
    if (part.cols > 0) lists_[unit].push_back(part);
  }
}

/// Of the columns that it has written itself, if it may keep them for itself.
void OpCutter::cut_op(const HighestOp& op) {
  const Cut own = cut_as_written({op.x}, op.cols);
  const Access read = columns(op.x, op.rows, op.cols, op.cols, own, false);
  const bool written = std::ranges::any_of(accesses_, [&](const Access& before) { return before.writes && before.same_parts(read); });
  const auto* product = at_ > 0 ? std::get_if<LinearOp>(&ops_[at_ - 1]) : nullptr;
  access(std::array{read});
  for (std::size_t unit = 0; unit < units_.size(); ++unit) {
    if (own.count(unit) == 0) continue;
    HighestOp part = op;
    part.out = op.out + static_cast<std::int64_t>(unit) * op.rows;
    part.columns = own.of(unit);
    part.only_reader = op.only_reader && written && product && product->parts[0].y == op.x;
    lists_[unit].push_back(part);
  }
}

void OpCutter::cut_op(const AllGatherOp& op) {
  const std::int64_t begin = op.share.begin(), width = op.share.end(op.cols) - begin;
  const Cut own = cut_of(width, kGrain, shares_.of(UnitShares::kOther)), rows = cut_of(op.rows, 1, shares_.of(UnitShares::kOther));
  access(std::array{columns(op.x + begin, op.rows, op.cols, width, own, false)});
  for (std::size_t unit = 0; unit < units_.size(); ++unit) {
    AllGatherOp part = op;
    part.share.group = &units_of(op.share, unit);
    part.share.part = {begin + own.at[unit], begin + own.at[unit + 1]};
    part.brings = rows.of(unit);
    lists_[unit].push_back(part);
  }
  slice_bytes_ = std::max(slice_bytes_, slices_of(op).bytes());
  after_barrier();
  accesses_.push_back(token_rows(op.x, op.cols, rows, true));
}

}  // namespace yamata
