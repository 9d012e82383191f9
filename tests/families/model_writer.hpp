#pragma once
// A GGUF file in the making: metadata of a family, and tensors of random weights.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "node/tensor_type.hpp"

namespace yamata::families_test {

/// What a tensor's values are like.
enum class Like {
  kMatrix,     ///< products of inputs of variance 1 have variance 1
  kFaint,      ///< the same of variance 0.01
  kQuiet,      ///< the same of variance 0.05
  kFusion,     ///< of two inputs side by side mostly the first: the identity, and of both products of variance 0.01
  kRouter,     ///< products have variance 4
  kEmbedding,  ///< of variance 1
  kOutput,     ///< products have variance 9; the rows of tokens that are no words are 0
  kNorm,       ///< about 1
  kLoudNorm,   ///< about 40
  kLaterNorm,  ///< about 9
  kQuietNorm,  ///< about 0.2
  kBias,       ///< about 0
  kTaps,       ///< the same, as a matrix of floats
  kRate,       ///< about -1
};

class ModelWriter {
 public:
  explicit ModelWriter(std::string architecture);

  // Metadata of the family, whose name comes before each key.
  ModelWriter& count(const std::string& key, std::int64_t value);
  ModelWriter& counts(const std::string& key, const std::vector<std::int32_t>& values);
  ModelWriter& wide_counts(const std::string& key, const std::vector<std::uint64_t>& values);
  ModelWriter& flags(const std::string& key, const std::vector<bool>& values);
  ModelWriter& real(const std::string& key, double value);
  ModelWriter& boolean(const std::string& key, bool value);
  ModelWriter& text(const std::string& key, const std::string& value);
  /// `shape`: fastest dimension first. `seed`: what draws its values, where that is not its name; slices of a third dimension are drawn
  /// each from seed.0, seed.1, ...
  void tensor(const std::string& name, std::vector<std::int64_t> shape, Like like, const std::string& seed = "");
  /// `widened`: F32 tensors of the values that matrices of the type have.
  void write(TensorType matrices, bool widened, const std::string& path) const;

  static constexpr std::uint32_t kVocabulary = 512;

 private:
  struct Tensor {
    std::string name;
    std::vector<std::int64_t> shape;
    Like like;
    std::string seed;
  };
  static std::vector<float> values(const Tensor& tensor);
  void pair(const std::string& key, std::string_view type_and_value);
  template <class T>
  ModelWriter& list(const std::string& key, std::uint32_t type, const std::vector<T>& values);
  void vocabulary();

  std::string architecture_;
  std::vector<std::pair<std::string, std::string>> metadata_;
  std::vector<Tensor> tensors_;
};

}  // namespace yamata::families_test
