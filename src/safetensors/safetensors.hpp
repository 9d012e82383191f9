#pragma once
// Reads safetensors files, which are mapped and not copied: the length of a header, the header (JSON: name -> type, shape, offsets), and
// the tensors' bytes.
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "node/mapped_file.hpp"

namespace yamata::safetensors {

/// Element types. Tensor::floats and Tensor::integers convert only some of them; the other types are only accepted in files.
enum class Type { kF16, kBF16, kF32, kI32, kI64, kOther };

struct Tensor {
  std::string name;
  Type type = Type::kOther;
  std::string type_name;             ///< as written in the file
  std::vector<std::int64_t> shape;   ///< slowest dimension first, as in the file
  std::span<const std::byte> bytes;  ///< into the mapping, at any alignment

  std::int64_t elements() const;
  /// The elements as floats. Throws ModelError with the tensor's name if they are not floats.
  std::vector<float> floats() const;
  /// The same for integers.
  std::vector<std::int64_t> integers() const;
};

class File {
 public:
  /// Maps the file. Every length, type, shape and offset is checked: tensors must follow each other without overlap or gap up to the end of
  /// the file. Throws ModelError with file, tensor, cause and remedy.
  static File open(const std::string& path);
  /// Reads a file in memory. The bytes must outlive the result.
  static File parse(std::span<const std::byte> bytes, const std::string& name);

  const std::string& name() const { return name_; }
  /// By name, in ascending order.
  const std::vector<Tensor>& tensors() const { return tensors_; }
  const Tensor* find(std::string_view tensor) const;
  /// The strings of `__metadata__`.
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  /// The whole file in memory.
  std::span<const std::byte> bytes() const { return mapping_->bytes; }

 private:
  void read();
  void check_places(std::size_t data_bytes) const;

  std::string name_;
  std::unique_ptr<MappedFile> mapping_;
  std::vector<Tensor> tensors_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace yamata::safetensors
