#pragma once
// Reading safetensors files, mapped, never copied: the length of a header, the header (JSON: name -> type, shape, place), the tensors'
// bytes.
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

/// Of elements. Only those of Tensor::floats and Tensor::integers are read; the others are known, so that they may be there.
enum class Type { kF16, kBF16, kF32, kI32, kI64, kOther };

struct Tensor {
  std::string name;
  Type type = Type::kOther;
  std::string type_name;             ///< as it stands in the file
  std::vector<std::int64_t> shape;   ///< slowest dimension first, as in the file
  std::span<const std::byte> bytes;  ///< into the mapping, at any alignment

  std::int64_t elements() const;
  /// The elements as floats. Throws ModelError naming the tensor where they are no floats.
  std::vector<float> floats() const;
  /// Likewise of whole numbers.
  std::vector<std::int64_t> integers() const;
};

class File {
 public:
  /// Maps the file. Every length, type, shape and offset is checked: tensors lie side by side, without overlap or hole, to the file's end.
  /// Throws ModelError: file, tensor, what is wrong, remedy.
  static File open(const std::string& path);
  /// Reads a file that lies in memory. The bytes must outlive the result.
  static File parse(std::span<const std::byte> bytes, const std::string& name);

  const std::string& name() const { return name_; }
  /// By name, in ascending order.
  const std::vector<Tensor>& tensors() const { return tensors_; }
  const Tensor* find(std::string_view tensor) const;
  /// The texts under `__metadata__`.
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  /// All of it, as it lies in memory.
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
