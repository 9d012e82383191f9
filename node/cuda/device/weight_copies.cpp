#include "node/cuda/device/weight_copies.hpp"

#include <algorithm>
#include <variant>

namespace yamata::cuda {

/// The buffer with the operation's weights; all of them are of one layer.
std::span<const std::byte> WeightCopies::needed_by(const Op& op) const {
  const auto* linear = std::get_if<LinearOp>(&op);
  if (!linear) return {};
  const auto part = std::ranges::find_if(linear->parts, [](const LinearOp::Part& each) { return each.weight && each.weight->packed; });
  return part == std::end(linear->parts) ? std::span<const std::byte>{} : memory_.copied_weights(part->weight->packed);
}

void WeightCopies::begin(std::span<const Op> ops) {
  list_.clear();
  current_.reset();
  std::size_t most = 0;
  for (const Op& op : ops) {
    const std::span<const std::byte> needed = needed_by(op);
    if (needed.empty() || (!list_.empty() && list_.back().weights.data() == needed.data())) continue;
    list_.push_back({needed});
    most = std::max(most, needed.size());
  }
  for (std::size_t i = 0; i < std::min(list_.size(), slots_.size()); ++i) {
    if (slots_[i] && slots_[i]->size() < most) slots_[i].reset();  // both together may not fit
    if (!slots_[i]) slots_[i] = launcher_.device().allocate(most, DeviceMemory::kHidden);
  }
  for (std::size_t i = 0; i < std::min(list_.size(), slots_.size()); ++i) copy(i);
}

/// What was launched before this call has ended when the copy begins, so nothing reads the slot any more.
void WeightCopies::copy(std::size_t buffer) {
  Copied& next = list_[buffer];
  next.number = launcher_.copy_beside(slot(buffer), next.weights.data(), next.weights.size());
  bytes_ += next.weights.size();
}

void WeightCopies::before(const Op& op) {
  const std::span<const std::byte> needed = needed_by(op);
  if (needed.empty() || (current_ && list_[*current_].weights.data() == needed.data())) return;
  current_ = current_ ? *current_ + 1 : 0;
  if (*current_ > 0 && *current_ + 1 < list_.size()) copy(*current_ + 1);
  launcher_.await_copy(list_[*current_].number);
}

const std::byte* WeightCopies::of(const std::byte* weights) const {
  if (!current_) return nullptr;
  const std::span<const std::byte> all = list_[*current_].weights;
  const bool inside = weights >= all.data() && weights < all.data() + all.size();
  return inside ? slot(*current_) + (weights - all.data()) : nullptr;
}

}  // namespace yamata::cuda
