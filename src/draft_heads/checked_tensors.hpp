#pragma once
// Tensors of draft heads, checked against the shapes that the target needs; which were asked for is noted.
#include <set>
#include <string>

#include "src/draft_heads/tensor_views.hpp"
#include "src/model/model_file.hpp"

namespace yamata::draft_heads {

class CheckedTensors {
 public:
  /// Both must outlive this.
  CheckedTensors(const TensorViews& tensors, const ModelFile& target) : tensors_(tensors), target_(target) {}

  const TensorViews& all() const { return tensors_; }
  const ModelFile& target() const { return target_; }
  /// The tensor with this name, or with the prefix "model."; null: missing.
  const TensorView* find(const std::string& name) const;
  /// Throws ModelError if it is missing.
  const TensorView& get(const std::string& name) const;
  /// The tensor with this shape. Throws ModelError, with its name, if it has another shape.
  const TensorView& get(const std::string& name, std::int64_t rows, std::int64_t cols) const;
  const TensorView& vector(const std::string& name, std::int64_t length) const { return get(name, 1, length); }
  /// The same, or null if it is missing.
  const TensorView* find(const std::string& name, std::int64_t rows, std::int64_t cols) const;

  /// Throws ModelError with the first tensor whose name begins with `prefix` that was not asked for. Tables of integers do not count.
  void require_all_read(const std::string& prefix) const;

 private:
  const TensorView& check(const TensorView& tensor, std::int64_t rows, std::int64_t cols) const;

  const TensorViews& tensors_;
  const ModelFile& target_;
  mutable std::set<std::string> read_;
};

}  // namespace yamata::draft_heads
