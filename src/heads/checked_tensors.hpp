#pragma once
// Tensors of heads with the shapes that the target asks for.
#include <string>

#include "src/heads/tensor_views.hpp"
#include "src/model/model_file.hpp"

namespace yamata::heads {

class CheckedTensors {
 public:
  /// Both outlive this.
  CheckedTensors(const TensorViews& tensors, const ModelFile& target) : tensors_(tensors), target_(target) {}

  const TensorViews& all() const { return tensors_; }
  const ModelFile& target() const { return target_; }
  /// Under its name, or with "model." before it; null: missing.
  const TensorView* find(const std::string& name) const;
  /// Throws ModelError where it is missing.
  const TensorView& get(const std::string& name) const;
  /// With this shape. Throws ModelError naming it where it has another.
  const TensorView& get(const std::string& name, std::int64_t rows, std::int64_t cols) const;
  const TensorView& vector(const std::string& name, std::int64_t length) const { return get(name, 1, length); }
  /// Likewise, or null where it is missing.
  const TensorView* find(const std::string& name, std::int64_t rows, std::int64_t cols) const;

 private:
  const TensorView& check(const TensorView& tensor, std::int64_t rows, std::int64_t cols) const;

  const TensorViews& tensors_;
  const ModelFile& target_;
};

}  // namespace yamata::heads
