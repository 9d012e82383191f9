#include "src/draft_heads/checked_tensors.hpp"

#include <fmt/format.h>

#include "node/error.hpp"

namespace yamata::draft_heads {

const TensorView* CheckedTensors::find(const std::string& name) const {
  const TensorView* found = tensors_.find(name);
  if (!found) found = tensors_.find("model." + name);
  if (found) read_.insert(found->name);
  return found;
}

const TensorView& CheckedTensors::get(const std::string& name) const {
  const TensorView* found = find(name);
  return found ? *found : tensors_.tensor(name);
}

const TensorView& CheckedTensors::check(const TensorView& tensor, std::int64_t rows, std::int64_t cols) const {
  const bool fits = rows == 1 ? tensor.rows * tensor.cols == cols : tensor.rows == rows && tensor.cols == cols;
  if (!fits) {
    throw ModelError(fmt::format("{}: tensor {} is {} x {} where {} asks for {} x {}; are these heads another model's?", tensors_.path(),
                                 tensor.name, tensor.rows, tensor.cols, target_.file.name(), rows, cols));
  }
  return tensor;
}

void CheckedTensors::require_all_read(const std::string& prefix) const {
  for (const std::string& name : tensors_.names()) {
    if (!name.starts_with(prefix) || read_.contains(name) || name.ends_with("rotary_emb.inv_freq")) continue;
    throw ModelError(fmt::format("{}: tensor {} is not supported; without it, the heads would give other guesses", tensors_.path(), name));
  }
}

const TensorView& CheckedTensors::get(const std::string& name, std::int64_t rows, std::int64_t cols) const {
  return check(get(name), rows, cols);
}

const TensorView* CheckedTensors::find(const std::string& name, std::int64_t rows, std::int64_t cols) const {
  const TensorView* found = find(name);
  return found ? &check(*found, rows, cols) : nullptr;
}

}  // namespace yamata::draft_heads
