#pragma once
// The tensors of a file of draft heads in any format: their data and types.
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "node/tensor_type.hpp"
#include "src/gguf/gguf.hpp"
#include "src/safetensors/safetensors.hpp"

namespace yamata::draft_heads {

/// The type to which the matrices of a head are quantized, Q8_0 or Q4_0, if their number of columns allows it. Those that take no more
/// bytes as stored keep their type, and so do all if this is nothing.
using MatrixType = std::optional<TensorType>;

/// A tensor as a matrix; a vector is one row.
struct TensorView {
  std::string name;
  TensorType type = TensorType::F32;
  std::int64_t rows = 1, cols = 0;
  const std::byte* data = nullptr;  ///< at any alignment
  std::size_t row_bytes = 0;
  std::string file{};  ///< for messages

  /// A row in floats: [cols].
  void row(std::int64_t i, float* out) const;
};

/// The tensors by name, and the file's metadata. Files stay mapped during the lifetime of this object.
class TensorViews {
 public:
  /// Opens a safetensors file, a GGUF file, or a folder with safetensors files and config.json. Throws ModelError if something is missing
  /// or damaged.
  static TensorViews open(const std::string& path);
  /// The tensors of an open GGUF file, which outlives this: a target with its own heads.
  static TensorViews of(const gguf::File& file);

  const std::string& path() const { return path_; }
  bool has(const std::string& name) const { return find(name) != nullptr; }
  const TensorView* find(const std::string& name) const;
  /// Like find, but throws ModelError with the name of a missing tensor.
  const TensorView& tensor(const std::string& name) const;
  /// A tensor of integers; nothing if there is none.
  std::optional<std::vector<std::int64_t>> integers(const std::string& name) const;
  /// Names, ascending.
  std::vector<std::string> names() const;

  /// The value of a key in the metadata or config.json; nothing if there is none. Throws ModelError if a number is wanted, and it is a
  /// text or a list.
  std::optional<double> number(const std::string& key) const;
  std::optional<std::string> text(const std::string& key) const;
  std::vector<std::int64_t> numbers(const std::string& key) const;
  /// The GGUF file that this is; null: none.
  const gguf::File* gguf() const { return gguf_; }
  /// A hash over names, shapes and sampled bytes.
  std::uint64_t fingerprint() const;
  std::size_t resident_bytes() const { return owned_ ? owned_->resident_bytes() : 0; }

 private:
  void add(const safetensors::File& file);
  void add(const gguf::File& file);
  void read_config_of(const std::string& folder);  // nothing if there is no config.json

  std::string path_;
  std::vector<safetensors::File> files_;
  std::unique_ptr<gguf::File> owned_;
  const gguf::File* gguf_ = nullptr;
  std::map<std::string, TensorView> tensors_;
  std::map<std::string, std::function<std::vector<std::int64_t>()>> integers_;
  std::map<std::string, double> numbers_;
  std::set<std::string> keys_;  // of config.json that have a value of any type
  std::map<std::string, std::string> texts_;
  std::map<std::string, std::vector<std::int64_t>> lists_;
};

}  // namespace yamata::draft_heads
