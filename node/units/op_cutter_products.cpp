// Divides products of matrices among the units, by rows of the matrices, and the preparation of their inputs.
#include <algorithm>

#include "node/cpu/slice_layout.hpp"
#include "node/units/op_cutter.hpp"

namespace yamata {
namespace {

std::int64_t stride_of(const LinearOp::Part& part) { return part.stride > 0 ? part.stride : part.weight->rows; }

}  // namespace

int OpCutter::label_of(const LinearOp& op) {
  WorkKind kind{.what = WorkKind::What::kProduct, .outputs = 0, .inputs = op.cols, .width_class = width_class_of(op.rows), .context = 0};
  for (const LinearOp::Part& part : op.parts) kind.outputs += part.weight ? part.weight->rows : 0;
  return shares_.label(kind);
}

/// The cut of a matrix's rows: at whole heads, if they are heads of a layer that is divided by heads.
Cut OpCutter::cut_of_part(const LinearOp::Part& part, const Heads* heads, std::span<const double> shares) const {
  if (heads && heads->whole_groups) {
    const StoreOp& store = *heads->store;
    if (part.y == store.q) return heads->queries.scaled(store.head_dim);
    if (part.y == store.k || part.y == store.v) return heads->keys.scaled(store.head_dim);
    const auto* ungate = at_ + 1 < ops_.size() ? std::get_if<UngateOp>(&ops_[at_ + 1]) : nullptr;
    if (ungate && part.y == ungate->x) return heads->queries.scaled(2 * store.head_dim);
  }
  return cut_of(part.weight->rows, kCutGrain, shares);
}

void OpCutter::cut_op(const LinearOp& op) {
  if (std::ranges::none_of(op.parts, [](const auto& part) { return part.weight != nullptr; })) return cut_input_alone(op);
  if (op.x_each > 0) {
    LinearOp own = op;  // for the first unit, whose layout may differ from the others'
    for (LinearOp::Part& part : own.parts) part.weight = layouts_.of_unit(0, part.weight, std::max<std::int64_t>(1, op.experts.experts));
    return cut_alone(own);
  }
  begin_labelled();
  const int label = label_of(op);
  const std::vector<double> shares(shares_.of(label).begin(), shares_.of(label).end());
  const Heads* heads = heads_of(op, shares);
  PartCuts outputs{};
  std::vector<UnitAccess> writes;
  Cut all{};
  std::int64_t count = 0;
  for (std::size_t i = 0; i < op.parts.size(); ++i) {
    const LinearOp::Part& part = op.parts[i];
    if (!part.weight) continue;
    outputs[i] = cut_of_part(part, heads, shares);
    writes.push_back(UnitAccess::columns(part.y, op.rows, stride_of(part), part.weight->rows, outputs[i], true));
    for (std::size_t unit = 0; unit <= units_.size(); ++unit) all.at[unit] += outputs[i].at[unit];
    count += part.weight->rows;
  }
  if (op.share.group || (!op.experts.any() && (op.input || needs_quantized(op)))) {
    make_together(op, outputs, shares);
    accesses_.add(writes);
  } else {
    make_each(op, outputs, writes);
  }
  labelled(label, all, count);
}

/// The products of one unit.
LinearOp OpCutter::part_of(const LinearOp& op, std::size_t unit, const PartCuts& outputs) {
  LinearOp part = op;
  for (std::size_t i = 0; i < op.parts.size(); ++i) {
    if (!op.parts[i].weight) continue;
    part.parts[i].weight = layouts_.of_unit(unit, op.parts[i].weight, std::max<std::int64_t>(1, op.experts.experts));
    part.parts[i].outputs = outputs[i].of(unit);
  }
  return part;
}

/// The columns of the input that each unit provides: if possible, those that it has written itself.
Cut OpCutter::input_cut(const LinearOp& op, std::int64_t stride, std::int64_t width, std::span<const double> shares) {
  const auto parts_of = [&](const Cut& cut) {
    std::vector<UnitAccess> parts{UnitAccess::columns(op.x, op.rows, stride, width, cut, false)};
    if (op.up) parts.push_back(UnitAccess::columns(op.up, op.rows, stride, width, cut, false));
    return parts;
  };
  const auto* x = reinterpret_cast<const std::byte*>(op.x);
  for (const UnitAccess& before : accesses_.all()) {
    if (!before.writes || before.begin != x || before.stride != stride || before.cut.at[units_.size()] != width) continue;
    const auto aligned = [&](std::int64_t at) { return at == width || (op.share.begin() + at) % kCutGrain == 0; };
    const auto cuts = std::span(before.cut.at).first(units_.size());
    if (std::ranges::all_of(cuts, aligned) &&
        std::ranges::none_of(parts_of(before.cut), [&](const UnitAccess& a) { return accesses_.conflicts(a); }))
      return before.cut;
  }
  const Cut cut = cut_of(width, kCutGrain, shares);
  access(parts_of(cut));
  return cut;
}

void OpCutter::make_together(const LinearOp& op, const PartCuts& outputs, std::span<const double> shares) {
  const std::int64_t begin = op.share.begin(), width = op.share.end(op.cols) - begin, stride = op.x_stride > 0 ? op.x_stride : width;
  const Cut own = input_cut(op, stride, width, shares);
  const std::span<const std::int64_t> cuts = op.share.group ? op.share.cuts : lone_cuts(op.cols);
  for (std::size_t unit = 0; unit < units_.size(); ++unit) {
    LinearOp part = part_of(op, unit, outputs);
    part.x = op.x + own.at[unit];
    if (op.up) part.up = op.up + own.at[unit];
    part.x_stride = stride;
    part.share = {&units_of(op.share, unit), cuts, {begin + own.at[unit], begin + own.at[unit + 1]}};
    part.input = !needs_floats(op) ? nullptr : unit == 0 && op.input ? op.input : inputs_[unit].data();
    lists_[unit].push_back(part);
    if (unit == 0) slice_bytes_ = std::max(slice_bytes_, slices_of(part).bytes());
  }
  after_barrier();
  if (op.input && needs_floats(op))
    accesses_.add(UnitAccess::whole(op.input, static_cast<std::size_t>(op.rows * op.cols) * sizeof(float), true));
}

/// Each unit makes the whole input for itself, if the input must be made.
void OpCutter::make_each(const LinearOp& op, const PartCuts& outputs, std::vector<UnitAccess>& accesses) {
  const std::int64_t stride = op.x_stride > 0 ? op.x_stride : op.cols;
  const auto bytes = static_cast<std::size_t>((op.rows - 1) * stride + op.cols) * sizeof(float);
  accesses.push_back(UnitAccess::whole(op.x, bytes, false));
  if (op.up) accesses.push_back(UnitAccess::whole(op.up, bytes, false));
  access(accesses);
  for (std::size_t unit = 0; unit < units_.size(); ++unit) {
    LinearOp part = part_of(op, unit, outputs);
    if (op.input && needs_floats(op)) part.input = inputs_[unit].data();
    lists_[unit].push_back(part);
  }
}

/// There is no product: only the input is made, by the first unit. In a group, all units provide their columns.
void OpCutter::cut_input_alone(const LinearOp& op) {
  if (op.share.group) return make_together(op, {}, shares_.of(UnitShares::kOther));
  add_barrier();
  lists_[0].push_back(op);
  accesses_.add(UnitAccess::whole(op.input, static_cast<std::size_t>(op.rows * op.cols) * sizeof(float), true));
}

}  // namespace yamata
