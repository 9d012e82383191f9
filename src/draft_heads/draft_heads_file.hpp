#pragma once
// A file of draft heads: small networks that guess the target's tokens from its hidden states.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/draft_heads/tensor_views.hpp"
#include "src/model/model_file.hpp"
#include "src/model/stage_model.hpp"

namespace yamata::draft_heads {

enum class Kind {
  kMedusa,  ///< each head guesses one of the next tokens, from the same hidden state
  kEagle,   ///< EAGLE-1 and -2: a matrix combines a token and the hidden state before it; this gives the next hidden state
  kDgf,     ///< the same, combined by a gate (Dovetail)
  kEagle3,  ///< the hidden state is the head's own, computed from three of the target's
  kNextn,   ///< an additional layer of the target's family, in its GGUF file (DeepSeek-V3's multi-token prediction, MTP)
};
const char* kind_name(Kind kind);
/// "medusa", "eagle", "dgf", "eagle3", "nextn".
std::optional<Kind> find_kind(const std::string& name);

/// What a job needs to know about heads before they are loaded.
struct Needs {
  std::vector<std::int32_t> feature_layers;  ///< the target's layers that they read, ascending
  std::uint64_t weight_bytes = 0;            ///< bytes kept in memory, including a copy of the target's output if they use it
  std::uint64_t evaluation_bytes = 0;        ///< of these, bytes read by one evaluation
  std::uint64_t cache_per_cell = 0;          ///< bytes
  std::uint64_t row_bytes = 0;               ///< bytes of buffers per token of a run
};

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
