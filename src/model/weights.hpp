#pragma once
// The weights of a stage, as they lie in the mapped file. What there is to find, how it is shaped, who holds it and how many bytes it is
// follow from the family's table of tensors.
#include <array>
#include <map>
#include <memory>
#include <vector>

#include "node/op.hpp"
#include "src/model/shard.hpp"

namespace yamata {

/// What of a tensor of the file a stage has a use for: all of it, or some of its rows.
struct FoundTensor {
  TensorRole role;
  std::int64_t layer = -1;  ///< -1: of no layer
  const gguf::Tensor* tensor = nullptr;
  std::int64_t rows = 1, cols = 1;  ///< of a vector one row
  Interval here{};                  ///< its rows that this rank holds
  std::int64_t copy = -1;           ///< which expert's or head's it is; -1: the only one
  bool of_expert = false;
  bool turned = false;    ///< the file has its columns as rows: it is written anew, as floats
  std::size_t begin = 0;  ///< bytes of the tensor before its first row

  /// Bytes of a row in the file.
  std::size_t row_bytes() const {
    const TypeTraits& t = traits(tensor->type);
    return static_cast<std::size_t>(turned ? rows : cols) / t.block_elements * t.block_bytes;
  }
  /// Bytes of the rows that are here, as they are held and read: packed, but for vectors and the embedding.
  std::size_t held_bytes() const;
  /// The rows that are here, as they lie in the file.
  std::span<const std::byte> bytes() const {
    if (turned) return {tensor->data + begin, static_cast<std::size_t>(cols) * row_bytes()};
    return {tensor->data + begin + static_cast<std::size_t>(here.begin) * row_bytes(),
            static_cast<std::size_t>(here.count()) * row_bytes()};
  }
};

/// Every tensor of a stage, in the order of the family's table, layer by layer. Throws ModelError naming one that is missing or has
/// another shape than the metadata ask for. Vectors and the embedding are every member's.
std::vector<FoundTensor> find_tensors(const gguf::File& file, const Hyperparameters& h, LayerRange layers, const Shard& shard);
inline std::vector<FoundTensor> find_tensors(const gguf::File& file, const Hyperparameters& h, LayerRange layers) {
  return find_tensors(file, h, layers, Shard(h));
}

/// Weights by role; those that there are not are empty.
class WeightSet {
 public:
  /// Whether there is one of this role.
  bool has(TensorRole role) const { return at(role).data != nullptr; }
  /// A matrix as Extent says: [rows, cols].
  const Matrix& matrix(TensorRole role) const { return at(role); }
  /// A vector of F32; null where there is none.
  const float* vector(TensorRole role) const { return reinterpret_cast<const float*>(at(role).data); }
  /// Of one matrix per expert, or per head that is here, the first; the others come after it.
  const Matrix* copies(TensorRole role) const { return copies_.at(role).data(); }
  void put(const FoundTensor& found);
  /// The matrices that are multiplied with.
  std::vector<Matrix*> factors();

 private:
  const Matrix& at(TensorRole role) const { return all_[static_cast<std::size_t>(role)]; }
  std::array<Matrix, kTensorRoles> all_{};
  std::map<TensorRole, std::vector<Matrix>> copies_;
  std::vector<std::unique_ptr<float[]>> turned_;
};

struct StageWeights {
  std::vector<LayerSpec> specs;   // per layer of the stage
  std::vector<WeightSet> layers;  // the same
  WeightSet rest;                 // embedding, output and its norm, rope factors

  /// Throws ModelError for a tensor as find_tensors does, and for a layer that Yamata cannot compute, naming what it needs.
  static StageWeights find(const gguf::File& file, const Hyperparameters& h, LayerRange layers, const Shard& shard);
  static StageWeights find(const gguf::File& file, const Hyperparameters& h, LayerRange layers) { return find(file, h, layers, Shard(h)); }
  /// The matrices that are multiplied with, each once.
  std::vector<Matrix*> factors();
  /// Of some layers, counted from the stage's first; with the last goes what belongs to none.
  std::vector<Matrix*> factors(LayerRange of);
};

/// The bytes of every tensor that a rank of a stage holds, with or without `experts`; embedding and output once where the file ties them.
std::vector<std::span<const std::byte>> stage_tensors(const gguf::File& file, const Hyperparameters& h, LayerRange layers,
                                                      const Shard& shard, bool experts = true);
/// Their sum, as they are held.
std::size_t stage_bytes(const gguf::File& file, const Hyperparameters& h, LayerRange layers, const Shard& shard);
inline std::size_t stage_bytes(const gguf::File& file, const Hyperparameters& h, LayerRange layers) {
  return stage_bytes(file, h, layers, Shard(h));
}
/// Bytes of one layer alone that a token reads, without embedding or output: of experts those that it uses.
std::size_t layer_bytes(const gguf::File& file, const Hyperparameters& h, std::int64_t layer, const Shard& shard);
inline std::size_t layer_bytes(const gguf::File& file, const Hyperparameters& h, std::int64_t layer) {
  return layer_bytes(file, h, layer, Shard(h));
}
/// Those of a stage; the last also reads the output. stage_bytes says what it holds.
std::size_t read_bytes(const gguf::File& file, const Hyperparameters& h, LayerRange layers, const Shard& shard);
inline std::size_t read_bytes(const gguf::File& file, const Hyperparameters& h, LayerRange layers) {
  return read_bytes(file, h, layers, Shard(h));
}

}  // namespace yamata
