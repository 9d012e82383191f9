#pragma once
// The weights of a stage in the mapped file. The family's table of tensors determines which tensors there are, their shapes and sizes, and
// which ranks hold them.
#include <array>
#include <map>
#include <memory>
#include <vector>

#include "node/op.hpp"
#include "src/model/shard.hpp"

namespace yamata {

/// The part of a tensor of the file that a stage uses: all of it, or some of its rows.
struct FoundTensor {
  TensorRole role;
  std::int64_t layer = -1;  ///< -1: outside the layers
  const gguf::Tensor* tensor = nullptr;
  std::int64_t rows = 1, cols = 1;  ///< a vector is one row
  Interval here{};                  ///< its rows that this rank holds
  std::int64_t copy = -1;           ///< number of its expert or head; -1: there is only one
  bool of_expert = false;
  bool transposed = false;              ///< it is transposed in the file; a transposed copy is made, as floats
  std::size_t begin = 0;                ///< bytes of the tensor before its first row
  const gguf::Tensor* scale = nullptr;  ///< the factors of all its weights, one for each copy; null: 1

  /// Bytes of a row in the file.
  std::size_t row_bytes() const { return yamata::row_bytes(tensor->type, transposed ? rows : cols); }
  /// Bytes of this rank's rows in the form in which they are held and read: packed, except vectors and the embedding.
  std::size_t held_bytes() const;
  /// This rank's rows in the file.
  std::span<const std::byte> bytes() const {
    if (transposed) return {tensor->data + begin, static_cast<std::size_t>(cols) * row_bytes()};
    return {tensor->data + begin + static_cast<std::size_t>(here.begin) * row_bytes(),
            static_cast<std::size_t>(here.count()) * row_bytes()};
  }
};

/// Every tensor of a stage, in the order of the family's table, layer by layer. Throws ModelError with the name of a tensor that is
/// missing, or whose shape does not match the metadata. Every member has all vectors and the embedding.
std::vector<FoundTensor> find_tensors(const gguf::File& file, const Hyperparameters& h, LayerRange layers, const Shard& shard);
inline std::vector<FoundTensor> find_tensors(const gguf::File& file, const Hyperparameters& h, LayerRange layers) {
  return find_tensors(file, h, layers, Shard(h));
}

/// Weights by role; missing ones are empty.
class WeightSet {
 public:
  /// Whether there is one of this role.
  bool has(TensorRole role) const { return at(role).data != nullptr; }
  /// A matrix as Extent says: [rows, cols].
  const Matrix& matrix(TensorRole role) const { return at(role); }
  /// A vector of F32; null if there is none.
  const float* vector(TensorRole role) const { return reinterpret_cast<const float*>(at(role).data); }
  /// The first of the matrices per expert, or per head on this rank; the others follow it.
  const Matrix* copies(TensorRole role) const { return copies_.at(role).data(); }
  void put(const FoundTensor& found);
  /// The matrices of products.
  std::vector<Matrix*> factors();

 private:
  const Matrix& at(TensorRole role) const { return all_[static_cast<std::size_t>(role)]; }
  std::array<Matrix, kTensorRoles> all_{};
  std::map<TensorRole, std::vector<Matrix>> copies_;
  std::vector<std::unique_ptr<float[]>> transposed_;
};

/// Whether the weights that are found will be read for a result: then each must be present (gguf::File::require_present). For a time or a
/// size they may be holes.
enum class WeightUse { kResult, kTime };

struct StageWeights {
  std::vector<LayerSpec> specs;   // per layer of the stage
  std::vector<WeightSet> layers;  // the same
  WeightSet rest;                 // embedding, output and its norm, rope factors

  /// Throws ModelError like find_tensors, and for a layer with an unsupported feature, with its name.
  static StageWeights find(const gguf::File& file, const Hyperparameters& h, LayerRange layers, const Shard& shard,
                           WeightUse use = WeightUse::kResult);
  static StageWeights find(const gguf::File& file, const Hyperparameters& h, LayerRange layers) { return find(file, h, layers, Shard(h)); }
  /// Only those outside the layers, of a rank that has all layers.
  static WeightSet find_rest(const gguf::File& file, const Hyperparameters& h, WeightUse use = WeightUse::kResult);
  /// The matrices of products, each once.
  std::vector<Matrix*> factors();
  /// The same for some layers, counted from the stage's first; with the last layer also those outside the layers.
  std::vector<Matrix*> factors(LayerRange of);
};

/// The bytes of the file that a stage reads, with factors; `found` belongs to it. Throws ModelError if one of them is a hole.
void require_present(const gguf::File& file, const FoundTensor& found);

/// The bytes of every tensor that a rank of a stage holds in memory, with or without `experts`; tied embedding and output count once.
std::vector<std::span<const std::byte>> stage_tensors(const gguf::File& file, const Hyperparameters& h, LayerRange layers,
                                                      const Shard& shard, bool experts = true);
/// Their sum, in the form in which they are held.
std::size_t stage_bytes(const gguf::File& file, const Hyperparameters& h, LayerRange layers, const Shard& shard);
/// What is not in it, because it stays in the file (stays_in_file).
std::size_t in_file_bytes(const gguf::File& file, const Hyperparameters& h, LayerRange layers, const Shard& shard);
inline std::size_t stage_bytes(const gguf::File& file, const Hyperparameters& h, LayerRange layers) {
  return stage_bytes(file, h, layers, Shard(h));
}
/// Bytes of one layer that a token reads, without embedding or output; of experts, only those that it uses.
std::size_t layer_bytes(const gguf::File& file, const Hyperparameters& h, std::int64_t layer, const Shard& shard);
inline std::size_t layer_bytes(const gguf::File& file, const Hyperparameters& h, std::int64_t layer) {
  return layer_bytes(file, h, layer, Shard(h));
}
/// The same for a stage; the last stage also reads the output. stage_bytes is what it holds.
std::size_t read_bytes(const gguf::File& file, const Hyperparameters& h, LayerRange layers, const Shard& shard);
inline std::size_t read_bytes(const gguf::File& file, const Hyperparameters& h, LayerRange layers) {
  return read_bytes(file, h, layers, Shard(h));
}

}  // namespace yamata
