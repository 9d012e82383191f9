#pragma once
// A file of draft heads: small networks that guess the target's tokens from its hidden states.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/draft_heads/kind.hpp"
#include "src/draft_heads/needs.hpp"
#include "src/draft_heads/tensor_views.hpp"
#include "src/model/model_file.hpp"
#include "src/model/stage_model.hpp"

namespace yamata::draft_heads {

class DraftHeadsFile {
 public:
  /// Detects the kind of heads from the tensors' names, unless `forced`. Throws ModelError if the kind is unknown.
  static DraftHeadsFile open(const std::string& path, std::optional<Kind> forced);
  /// The multi-token prediction layer of a target's own file. The file outlives this.
  static DraftHeadsFile in_target(const gguf::File& target) { return {TensorViews::of(target), Kind::kNextn}; }

  const std::string& path() const { return tensors_.path(); }
  Kind kind() const { return kind_; }
  const TensorViews& tensors() const { return tensors_; }
  std::uint64_t fingerprint() const { return tensors_.fingerprint(); }
  std::size_t resident_bytes() const { return tensors_.resident_bytes(); }

  /// Checks that these are heads of this target. Throws ModelError with the name of the first tensor that does not fit.
  Needs needs(const ModelFile& target, const ContextOptions& context, MatrixType matrices) const;
  /// The heads as a one-stage model on `unit`; target and unit outlive it. Throws like needs.
  std::unique_ptr<StageModel> make_stage(const ModelFile& target, const ContextOptions& context, MatrixType matrices,
                                         ComputeUnit& unit) const;

 private:
  DraftHeadsFile(TensorViews tensors, Kind kind, std::optional<Kind> detected = std::nullopt)
      : tensors_(std::move(tensors)), kind_(kind), detected_(detected) {}
  Needs needs_of_kind(const ModelFile& target, const ContextOptions& context, MatrixType matrices) const;

  TensorViews tensors_;
  Kind kind_;
  std::optional<Kind> detected_;  ///< by the tensors' names; nothing: unknown
};

}  // namespace yamata::draft_heads
