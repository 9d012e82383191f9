#pragma once
// Reads GGUF files (versions 2 and 3), which are mapped and not copied.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "node/tensor_type.hpp"

namespace yamata::gguf {

/// A metadata value; integers are widened, strings and arrays are copied from the file.
using Value = std::variant<std::uint64_t, std::int64_t, double, bool, std::string, std::vector<std::uint64_t>, std::vector<std::int64_t>,
                           std::vector<double>, std::vector<bool>, std::vector<std::string>>;

/// A metadata pair in the file's encoding.
struct RawPair {
  std::string key;
  std::span<const std::byte> value;  ///< type and value, into the mapping
};

struct Tensor {
  std::string name;
  TensorType type;
  std::vector<std::int64_t> shape;  ///< fastest dimension first, as in the file: {cols, rows}
  const std::byte* data;            ///< into the mapping
  std::size_t bytes;
  int integer_bytes = 0;  ///< 4 or 8: the elements are integers of this many bytes, and `type` has no meaning

  std::int64_t cols() const { return shape.empty() ? 1 : shape[0]; }
  std::int64_t rows() const;  ///< product of the other dimensions
  /// The elements as integers. Throws ModelError if they are not integers.
  std::vector<std::int64_t> integers() const;
};

/// Tells which bytes of a file that is not complete are present; the others are holes, which read as zeros.
class Presence {
 public:
  virtual ~Presence() = default;
  virtual bool has(std::span<const std::byte> bytes) const = 0;
  /// The fingerprint of the complete file.
  virtual std::uint64_t fingerprint() const = 0;
};

/// A part of a model that is not complete.
struct IncompletePart {
  std::string path;                   ///< a file of the whole size, with holes
  std::span<const std::byte> header;  ///< header, metadata and tensor table, which the file lacks
};

class File {
 public:
  /// Maps the file and, if it is the first part of a split model (`-00001-of-0000N.gguf`), all its parts. Every count, length, offset and
  /// type is checked. Throws ModelError with file, offset or tensor, cause and remedy.
  static File open(const std::filesystem::path& path);
  /// Reads a file in memory (tests, fuzzing). The bytes must outlive the result.
  static File parse(std::span<const std::byte> bytes, const std::string& name);
  /// Maps the parts of a model with holes. The headers must outlive the result. `name`: for messages.
  static File open_incomplete(const std::vector<IncompletePart>& parts, std::shared_ptr<const Presence> presence, const std::string& name);
  ~File();
  File(File&&) noexcept;
  File& operator=(File&&) noexcept;

  const std::string& name() const { return name_; }
  std::uint32_t version() const { return version_; }
  const std::map<std::string, Value>& metadata() const { return metadata_; }
  /// The same, in the order of the file; for a split model, those of its first part.
  const std::vector<RawPair>& raw_metadata() const { return raw_metadata_; }
  std::uint64_t alignment() const { return alignment_; }  ///< of the data, in bytes; that of the first part
  const std::vector<Tensor>& tensors() const { return tensors_; }
  const Tensor* find(std::string_view tensor) const;
  /// Like find, but throws ModelError with the name of a missing tensor.
  const Tensor& tensor(std::string_view name) const;

  // Metadata by key. An absent key gives nothing; for a value of another kind they throw ModelError with the key.
  std::optional<std::int64_t> integer(const std::string& key) const;  ///< any integer type that fits
  std::optional<double> number(const std::string& key) const;         ///< any integer or float type
  std::optional<bool> boolean(const std::string& key) const;
  std::optional<std::string> string(const std::string& key) const;
  const std::vector<std::string>* strings(const std::string& key) const;  ///< null if absent
  std::vector<double> numbers(const std::string& key) const;              ///< empty if absent; any integer or float array

  /// Releases the pages read so far; they are loaded again when touched. No effect on a file in memory.
  void release_pages() const;
  /// Bytes of the mapping that this process has touched and holds (page granular).
  std::size_t resident_bytes() const;

  /// A hash over header, metadata, tensor table and sampled bytes of every tensor; equal files have equal ones.
  std::uint64_t fingerprint() const;

  /// Throws ModelError with the tensor's name unless these of its bytes are present. Call it before they are used for a result: a hole
  /// would give a wrong one without an error.
  void require_present(const Tensor& tensor, std::span<const std::byte> bytes) const;
  /// Whether the file may have holes.
  bool is_incomplete() const { return presence_ != nullptr; }

  /// A file of the model, mapped: its bytes, and how many of them come before the data.
  struct Part {
    std::span<const std::byte> bytes;
    std::size_t header_bytes = 0;
  };
  std::vector<Part> parts() const;

 private:
  struct Mapping;
  File();
  friend class Parser;
  std::string name_;
  std::uint32_t version_ = 0;
  std::map<std::string, Value> metadata_;
  std::vector<RawPair> raw_metadata_;
  std::uint64_t alignment_ = 0;
  std::vector<Tensor> tensors_;
  std::unordered_map<std::string, std::size_t> index_;
  std::vector<std::unique_ptr<Mapping>> mappings_;
  std::shared_ptr<const Presence> presence_;  // null: complete
};

}  // namespace yamata::gguf
