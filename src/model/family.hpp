#pragma once
// Model families, each a row of a table. See CONTRIBUTING.md, "A model family".
#include <span>
#include <string>

#include "src/model/layer_spec.hpp"

namespace yamata {

struct Hyperparameters;
class MetadataReader;

/// The role of a tensor in the computation.
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
  kIndexQ,
  kIndexQueryNorm,
  kIndexK,
  kIndexNorm,
  kIndexNormBias,
  kIndexWeights,
  kRuleQueries,
  kRuleKeys,
  kRuleValues,
  kConvolvedGate,
  kConvolutionGate,
  kConvolutionInput,
  kConvolutionTaps,
  kConvolutionBias,
  kStateGates,
  kStrength,
  kDecay,
  kDecayRate,
  kDecayBias,
  kStateSkip,
  kStateNorm,
  kStateOut,
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
  kExpertLatent,
  kExpertResult,
  kExpertGateBias,
  kExpertUpBias,
  kExpertDownBias,
  kSharedScore,
  kSharedGate,
  kSharedUp,
  kSharedDown,
  kRouterScale,
  kDensePostNorm,
  kExpertNorm,
  kExpertPostNorm,
  kFfnPostNorm,
  kLayerEmbedding,
  kLayerInputs,
  kLayerInputNorm,
  kLayerGate,
  kLayerProjection,
  kLayerPostNorm,
  kOutputScale,
  kNgramEmbedding,
  kNgramKey,
  kNgramValue,
  kNgramKeyNorm,
  kNgramQueryNorm,
  kNgramConvolutionNorm,
  kNgramTaps,
  kAttentionStreamNorm,
  kAttentionStreamDown,
  kAttentionStreamUp,
  kAttentionStreamWeights,
  kFfnStreamNorm,
  kFfnStreamDown,
  kFfnStreamUp,
  kFfnStreamWeights,
  kOutputStreamNorm,
  kOutputStreamDown,
  kOutputStreamUp,
  kOutputNorm,
  kOutputNormBias,
  kOutput,
  kOutputBias,
  kRopeFactors,
  kLongRopeFactors,
  kShortRopeFactors,
};
/// Whether its rows are looked up, not multiplied.
constexpr bool is_looked_up(TensorRole role) {
  return role == TensorRole::kEmbedding || role == TensorRole::kLayerEmbedding || role == TensorRole::kNgramEmbedding;
}
/// Whether a run reads so few of its rows that they may stay in the file, and the rest needs no memory.
constexpr bool stays_in_file(TensorRole role) { return role == TensorRole::kNgramEmbedding; }
inline constexpr std::size_t kTensorRoles = static_cast<std::size_t>(TensorRole::kShortRopeFactors) + 1;

/// The size of a tensor's dimension, by its meaning.
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
  kIndexQueries,  ///< all heads of an index
  kIndexHeads,
  kIndexDim,
  kGatedQueries,  ///< queries and gates of attention's results
  kChannels,      ///< of recurrent layers, like the next
  kChannelTaps,
  kStateKeys,
  kStateValues,
  kStateHeads,
  kHeadGates,  ///< two per head
  kStateDim,   ///< of a head
  kFfn,
  kExperts,
  kExpertFfn,
  kExpertDim,    ///< of what experts read and write
  kExpertInput,  ///< the same, which every member has whole
  kSharedFfn,
  kLayerInput,      ///< a layer's part of the per-layer embedding
  kAllLayerInputs,  ///< the same of all layers
  kNgramRows,       ///< of the table of n-gram embeddings, like the next
  kNgramHead,
  kNgrams,    ///< of a token
  kWholeDim,  ///< of the residual stream, where every member has it whole
  kNgramKernel,
  kStreams,     ///< their number
  kAllStreams,  ///< their columns
  kStreamRank,
  kRotaryPairs
};
/// Which ranks hold a tensor.
enum class Holder { kFirstStage, kLayer, kLastStage, kEveryStage };
/// The fused tensor of which a tensor may be a part, as consecutive rows: queries, keys and values; gate and up, also of each expert;
/// latent vector and rotated part of keys, queries, keys and values of the gated delta rule, what a scan reads, and gates and input of a
/// convolution, which are fused in all files.
enum class Fusion { kNone, kQkv, kGateUp, kExpertGateUp, kLatent, kState, kScan, kConvolution };
/// How many copies a layer has of a tensor: one; one per expert, in one tensor or in separate tensors; one per head, in one tensor, or as
/// each head's part of a tensor of keys and values.
enum class Copies { kOne, kPerExpert, kPerHead };

/// One row of a family's tensors.
struct TensorRow {
  TensorRole role;
  const char* name;  ///< in the file; for a layer's tensor without "blk.N."
  Holder holder;
  Extent rows, cols;  ///< rows kOne: a vector of F32; else a matrix of any type
  /// Whether a layer has it; null: always. For tensors outside the layers, it is called with the first layer's spec.
  bool (*present)(const LayerSpec& spec) = nullptr;
  const char* instead = nullptr;  ///< the tensor to use instead if the file has none
  bool optional = false;          ///< may be missing
  Fusion fusion = Fusion::kNone;
  const char* fused = nullptr;  ///< the fused tensor of which it may be a part
  Copies copies = Copies::kOne;
  const char* single = nullptr;  ///< for one copy per expert: the tensor of a single expert in older files; {} is the expert's number. For
                                 ///< one copy per head: the tensor of all keys and values
};

/// A tensor with another name in this family than in most.
struct Renamed {
  TensorRole role;
  const char *name, *instead = nullptr;
};

struct Family {
  const char* name;  ///< general.architecture
  LayerSpec layer;   ///< of its layers, unless the file's metadata override it
  std::span<const TensorRow> tensors;
  /// Reads metadata that only this family has; null: none.
  void (*read)(const MetadataReader& reader, Hyperparameters& h) = nullptr;
  std::span<const Renamed> renamed{};
  bool varied = false;  ///< layers may have different numbers of key/value heads and columns of the feed-forward
  bool gaps = false;    ///< or none: 0 in the list of these numbers
};

/// All families.
std::span<const Family> families();

/// The family of a file. Throws ModelError for an unsupported one, with its name and the supported ones.
const Family& find_family(const gguf::File& file);

/// Tensors with the names and shapes that most families share; a family has those that its layers' spec needs.
std::span<const TensorRow> common_tensors();

}  // namespace yamata
