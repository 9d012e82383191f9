#pragma once
// A file of heads: small networks that read a target's hidden states and guess its text.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/heads/tensor_views.hpp"
#include "src/model/model_file.hpp"
#include "src/model/stage_model.hpp"

namespace yamata::heads {

enum class Kind {
  kMedusa,  ///< each head says one of the next tokens, from the same hidden state
  kEagle,   ///< EAGLE-1 and -2: a token and the hidden state before it, put together by a matrix, give the next hidden state
  kDgf,     ///< the same, put together by a gate (Dovetail)
  kEagle3,  ///< the hidden state is one of the head's own, made of three of the target's
  kNextn,   ///< a further layer of the target's own kind, in its GGUF file (DeepSeek-V3's multi-token prediction, MTP)
};
const char* kind_name(Kind kind);
/// "medusa", "eagle", "dgf", "eagle3", "nextn".
std::optional<Kind> find_kind(const std::string& name);

/// What a job needs to know of heads before they are loaded.
struct Needs {
  std::vector<std::int32_t> feature_layers;  ///< that they read, ascending
  std::uint64_t weight_bytes = 0;            ///< that are kept in memory, a copy of the target's output included where they use that
  std::uint64_t evaluation_bytes = 0;        ///< of these, read by one evaluation
  std::uint64_t cache_per_cell = 0;          ///< bytes
  std::uint64_t row_bytes = 0;               ///< of buffers, per token of a run
};

class HeadsFile {
 public:
  /// Reads what the file is, from its tensors' names unless `forced`. Throws ModelError: no heads that are known.
  static HeadsFile open(const std::string& path, std::optional<Kind> forced);
  /// The layer of a target's own file that predicts a further token. The file outlives this.
  static HeadsFile in_target(const gguf::File& target) { return {TensorViews::of(target), Kind::kNextn}; }

  const std::string& path() const { return tensors_.path(); }
  Kind kind() const { return kind_; }
  const TensorViews& tensors() const { return tensors_; }
  std::uint64_t fingerprint() const { return tensors_.fingerprint(); }
  std::size_t resident_bytes() const { return tensors_.resident_bytes(); }

  /// Checks that these are heads of this target. Throws ModelError naming the first tensor that does not fit.
  Needs needs(const ModelFile& target, const ContextOptions& context, bool quantized) const;
  /// The heads as the only stage of a model on `unit`; target and unit outlive it. Throws as needs does.
  std::unique_ptr<StageModel> make_stage(const ModelFile& target, const ContextOptions& context, bool quantized, ComputeUnit& unit) const;

 private:
  HeadsFile(TensorViews tensors, Kind kind) : tensors_(std::move(tensors)), kind_(kind) {}
  TensorViews tensors_;
  Kind kind_;
};

}  // namespace yamata::heads
