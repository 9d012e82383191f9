#pragma once
// Families of models: a row of a table each. docs: CONTRIBUTING.md, "A model family".
#include <span>
#include <string>

#include "src/model/layer_spec.hpp"

namespace yamata {

/// What a tensor is to the computation.
enum class TensorRole {
  kEmbedding,
  kAttentionNorm,
  kQ,
  kK,
  kV,
  kO,
  kQBias,
  kKBias,
  kVBias,
  kOBias,
  kFfnNorm,
  kGate,
  kUp,
  kDown,
  kOutputNorm,
  kOutput,
  kRopeFactors,
};
inline constexpr std::size_t kTensorRoles = static_cast<std::size_t>(TensorRole::kRopeFactors) + 1;

/// How long one side of a tensor is.
enum class Extent { kOne, kDim, kVocabulary, kQueries, kKeys, kFfn, kRotaryPairs };
/// Who holds a tensor.
enum class Holder { kFirstStage, kLayer, kLastStage, kEveryStage };

/// One row of a family's tensors.
struct TensorRow {
  TensorRole role;
  const char* name;  ///< in the file; of a layer's tensor without "blk.N."
  Holder holder;
  Extent rows, cols;  ///< rows kOne: a vector of F32; else a matrix of any type
  /// Whether a layer has it; null: always. Of tensors outside of layers it is asked with the first layer's spec.
  bool (*present)(const LayerSpec& spec) = nullptr;
  const char* instead = nullptr;  ///< the tensor that stands in for it where the file has none
  bool optional = false;          ///< may be missing
};

struct Family {
  const char* name;  ///< general.architecture
  LayerSpec layer;   ///< of its layers, as far as the file's metadata do not say otherwise
  std::span<const TensorRow> tensors;
};

/// The family of a file. Throws ModelError for one that is not supported, by name, with those that are.
const Family& find_family(const gguf::File& file);

/// Tensors of Llama's names and shapes, which most families share.
std::span<const TensorRow> llama_tensors();

}  // namespace yamata
