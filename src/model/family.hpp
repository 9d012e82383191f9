#pragma once
// Families of models: a row of a table each. docs: CONTRIBUTING.md, "A model family".
#include <span>
#include <string>

#include "src/model/layer_spec.hpp"

namespace yamata {

struct Hyperparameters;

/// What a tensor is to the computation.
enum class TensorRole {
  kEmbedding,
  kAttentionNorm,
  kAttentionNormBias,
  kQ,
  kK,
  kV,
  kO,
  kQBias,
  kKBias,
  kVBias,
  kOBias,
  kQueryDown,
  kQueryDownNorm,
  kLatent,
  kLatentRotary,
  kLatentNorm,
  kKeyUp,
  kValueUp,
  kQNorm,
  kKNorm,
  kSinks,
  kAttentionPostNorm,
  kFfnNorm,
  kFfnNormBias,
  kGate,
  kUp,
  kDown,
  kGateBias,
  kUpBias,
  kDownBias,
  kRouter,
  kRouterBias,
  kChoiceBias,
  kExpertGate,
  kExpertUp,
  kExpertDown,
  kExpertGateBias,
  kExpertUpBias,
  kExpertDownBias,
  kSharedScore,
  kSharedGate,
  kSharedUp,
  kSharedDown,
  kFfnPostNorm,
  kOutputNorm,
  kOutputNormBias,
  kOutput,
  kRopeFactors,
  kLongRopeFactors,
  kShortRopeFactors,
};
inline constexpr std::size_t kTensorRoles = static_cast<std::size_t>(TensorRole::kShortRopeFactors) + 1;

/// How long one side of a tensor is.
enum class Extent {
  kOne,
  kDim,
  kVocabulary,
  kQueries,
  kKeys,
  kValues,  ///< attention's results
  kHeads,
  kHeadDim,
  kQueryRank,
  kLatentRank,
  kRotary,
  kPlain,
  kValueDim,
  kFfn,
  kExperts,
  kExpertFfn,
  kSharedFfn,
  kRotaryPairs
};
/// Who holds a tensor.
enum class Holder { kFirstStage, kLayer, kLastStage, kEveryStage };
/// What a tensor may be a part of, whole rows behind each other: queries, keys and values; gate and up; latent numbers and the rotated part
/// of keys, which no file has apart.
enum class Fusion { kNone, kQkv, kGateUp, kLatent };
/// How many there are of a layer's tensor: one; one per expert, which lie behind each other or in tensors of their own; one per head, which
/// lie behind each other, or are each head's part of keys and values in one.
enum class Copies { kOne, kPerExpert, kPerHead };

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
  Fusion fusion = Fusion::kNone;
  const char* fused = nullptr;  ///< the tensor it is a part of where the file has it in one
  Copies copies = Copies::kOne;
  const char* single = nullptr;  ///< of one per expert: an expert's own, older files have that; {} is the expert. Of one per head: the
                                 ///< tensor of all keys and values
};

/// A tensor that a family has under another name than most.
struct Renamed {
  TensorRole role;
  const char *name, *instead = nullptr;
};

struct Family {
  const char* name;  ///< general.architecture
  LayerSpec layer;   ///< of its layers, as far as the file's metadata do not say otherwise
  std::span<const TensorRow> tensors;
  /// What its metadata say that others' do not; null: nothing.
  void (*read)(const gguf::File& file, Hyperparameters& h) = nullptr;
  std::span<const Renamed> renamed{};
};

/// All that there are.
std::span<const Family> families();

/// The family of a file. Throws ModelError for one that is not supported, by name, with those that are.
const Family& find_family(const gguf::File& file);

/// Tensors of the names and shapes that most families share; each has those that its layers' spec asks for.
std::span<const TensorRow> common_tensors();

}  // namespace yamata
