#pragma once
// Writes GGUF files (version 3) sequentially.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "node/tensor_type.hpp"
#include "src/gguf/gguf.hpp"

namespace yamata::gguf {

/// First set metadata and tensor table; then begin() writes them, and data() writes the tensors' bytes in the order of the table.
class Writer {
 public:
  using Sink = std::function<void(std::span<const std::byte>)>;
  /// Passes every byte to `sink`, in order. `alignment`: of the data; unless it is 32, the caller must set general.alignment.
  explicit Writer(Sink sink, std::uint64_t alignment = 32) : sink_(std::move(sink)), alignment_(alignment) {}

  // Metadata. An existing key moves to the end with its new value.
  void set_raw(const std::string& key, std::span<const std::byte> type_and_value);
  void set_u32(const std::string& key, std::uint32_t value);
  void set_string(const std::string& key, std::string_view value);
  void remove(const std::string& key);

  /// An entry of the tensor table; `shape` fastest dimension first. Trailing dimensions of 1 are left out, as is usual.
  void add_tensor(const std::string& name, TensorType type, std::span<const std::int64_t> shape);
  void begin();
  /// Writes the next bytes of the tensors' data; a tensor may come in pieces. Writing past a tensor's end is a bug.
  void data(std::span<const std::byte> bytes);
  /// Total bytes of the tensors, without padding.
  std::uint64_t data_bytes() const;

 private:
  struct Pair {
    std::string key, value;
  };
  struct Entry {
    std::string name;
    TensorType type;
    std::vector<std::int64_t> shape;
    std::uint64_t bytes;
  };
  std::uint64_t padding(std::uint64_t bytes) const { return (alignment_ - bytes % alignment_) % alignment_; }
  void pad(std::uint64_t after);

  Sink sink_;
  std::uint64_t alignment_;
  std::vector<Pair> pairs_;
  std::vector<Entry> tensors_;
  std::size_t current_ = 0;          // the tensor that data() writes
  std::uint64_t current_bytes_ = 0;  // bytes of it that are written
};

}  // namespace yamata::gguf
