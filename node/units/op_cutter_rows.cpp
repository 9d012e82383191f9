// Divides operations on rows of tokens, on columns of the residual, and on weights.
#include <algorithm>

#include "node/cpu/slice_layout.hpp"
#include "node/units/op_cutter.hpp"

namespace yamata {

void OpCutter::cut_op(const PackOp& op) { layouts_.divide(op, cut_of(op.matrix->rows, kCutGrain, shares_.of(UnitShares::kOther)), lists_); }

void OpCutter::cut_op(const ReadOp& op) {
  constexpr std::int64_t kPage = 4096;
  const Cut bytes = cut_of(op.own.count_of(std::ssize(op.bytes)), kPage, shares_.of(UnitShares::kOther));
  for (std::size_t unit = 0; unit < units_.size(); ++unit)
    lists_[unit].push_back(ReadOp{op.bytes, {op.own.begin + bytes.at[unit], op.own.begin + bytes.at[unit + 1]}});
}

// Operations on rows of tokens.

void OpCutter::cut_op(const EmbedOp& op) {
  const Cut tokens = cut_of(std::ssize(op.tokens), 1, shares_.of(UnitShares::kOther));
  access(std::array{UnitAccess::token_rows(op.out, op.table->cols, tokens, true)});
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
  access(std::array{UnitAccess::whole(op.x, static_cast<std::size_t>((last + 1) * op.dim) * sizeof(float), false),
                    UnitAccess::token_rows(op.out, op.dim, rows, true)});
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
  const Cut rows = cut_of(op.rows, op.weight_rows, shares_.of(UnitShares::kOther));
  const std::int64_t floats = op.rows > 0 ? (op.rows - 1) * op.x_stride + op.cols : 0;
  access(std::array{UnitAccess::whole(op.x, static_cast<std::size_t>(floats) * sizeof(float), op.x == op.out),
                    UnitAccess::token_rows(op.out, op.out_stride, rows, true)});
  for (std::size_t unit = 0; unit < units_.size(); ++unit) {
    if (rows.count(unit) == 0) continue;
    NormOp part = op;
    part.x = op.x + rows.at[unit] * op.x_stride;
    part.out = op.out + rows.at[unit] * op.out_stride;
    part.rows = rows.count(unit);
    lists_[unit].push_back(part);
  }
}

void OpCutter::cut_op(const ResizeOp& op) {
  const Cut rows = cut_of(op.rows, 1, shares_.of(UnitShares::kOther));
  access(std::array{UnitAccess::whole(op.from, static_cast<std::size_t>(op.rows * op.from_cols) * sizeof(float), false),
                    UnitAccess::token_rows(op.to, op.to_cols, rows, true)});
  for (std::size_t unit = 0; unit < units_.size(); ++unit) {
    if (rows.count(unit) > 0)
      lists_[unit].push_back(
          ResizeOp{op.from + rows.at[unit] * op.from_cols, op.to + rows.at[unit] * op.to_cols, rows.count(unit), op.from_cols, op.to_cols});
  }
}

/// The cut with which these columns were written since the last synchronization; else one by the shares of UnitShares::kOther.
Cut OpCutter::cut_as_written(std::initializer_list<const float*> where, std::int64_t columns) const {
  for (const UnitAccess& before : accesses_.all()) {
    const auto* begin = reinterpret_cast<const float*>(before.begin);
    if (before.writes && before.stride > 0 && before.cut.at[units_.size()] == columns && std::ranges::find(where, begin) != where.end())
      return before.cut;
  }
  return cut_of(columns, kCutGrain, shares_.of(UnitShares::kOther));
}

void OpCutter::cut_op(const AddOp& op) {
  const Cut own = cut_as_written({op.from, op.to}, op.cols);
  const std::int64_t from_rows = op.experts.any() ? op.rows * op.experts.used : op.rows / op.each;
  std::vector<UnitAccess> accesses{UnitAccess::columns(op.to, op.rows, op.to_stride, op.cols, own, true),
                                   UnitAccess::columns(op.from, from_rows, op.from_stride, op.cols, own, false)};
  if (op.gate) accesses.push_back(UnitAccess::whole(op.gate, static_cast<std::size_t>(op.rows) * sizeof(float), false));
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
  const UnitAccess read = UnitAccess::columns(op.x, op.rows, op.cols, op.cols, own, false);
  const bool written =
      std::ranges::any_of(accesses_.all(), [&](const UnitAccess& before) { return before.writes && before.same_parts(read); });
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
  const Cut own = cut_of(width, kCutGrain, shares_.of(UnitShares::kOther)), rows = cut_of(op.rows, 1, shares_.of(UnitShares::kOther));
  access(std::array{UnitAccess::columns(op.x + begin, op.rows, op.cols, width, own, false)});
  for (std::size_t unit = 0; unit < units_.size(); ++unit) {
    AllGatherOp part = op;
    part.share.group = &units_of(op.share, unit);
    part.share.part = {begin + own.at[unit], begin + own.at[unit + 1]};
    part.brings = rows.of(unit);
    lists_[unit].push_back(part);
  }
  slice_bytes_ = std::max(slice_bytes_, slices_of(op).bytes());
  after_barrier();
  accesses_.add(UnitAccess::token_rows(op.x, op.cols, rows, true));
}

}  // namespace yamata
