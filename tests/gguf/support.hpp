#pragma once
// Writes GGUF files for tests: valid ones, and ones with one error.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace yamata::gguf_test {

/// GGUF's metadata types.
enum Type : std::uint32_t { kU8, kI8, kU16, kI16, kU32, kI32, kF32, kBool, kString, kArray, kU64, kI64, kF64 };

/// Little-endian bytes, appended piece by piece.
class Bytes {
 public:
  template <class T>
  Bytes& put(T value) {
    const auto* p = reinterpret_cast<const char*>(&value);
    bytes_.append(p, sizeof value);
    return *this;
  }
  /// A length and the text.
  Bytes& text(std::string_view text);
  Bytes& raw(std::string_view bytes);
  const std::string& str() const { return bytes_; }

 private:
  std::string bytes_;
};

/// An entry of the tensor table.
struct Entry {
  std::string name;
  std::vector<std::uint64_t> shape;
  std::uint32_t type = 0;
  std::uint64_t offset = 0;
};

/// A file that is being built. Counts follow from the added entries unless a test sets them.
class Writer {
 public:
  explicit Writer(std::uint32_t version = 3) : version_(version) {}

  template <class T>
  Writer& scalar(std::string_view key, Type type, T value) {
    return pair(key, type, Bytes().put(value).str());
  }
  Writer& string(std::string_view key, std::string_view value) { return pair(key, kString, Bytes().text(value).str()); }
  template <class T>
  Writer& array(std::string_view key, Type type, const std::vector<T>& values) {
    Bytes bytes;
    bytes.put<std::uint32_t>(type).put<std::uint64_t>(values.size());
    for (const T& value : values) bytes.put(value);
    return pair(key, kArray, bytes.str());
  }
  Writer& strings(std::string_view key, const std::vector<std::string>& values);
  /// A metadata pair with an arbitrary value, as bytes.
  Writer& pair(std::string_view key, std::uint32_t type, std::string_view value);
  /// Adds a table entry for `bytes` bytes at the next free offset.
  Writer& tensor(const std::string& name, std::vector<std::uint64_t> shape, std::uint32_t type, std::uint64_t bytes);
  /// Adds a table entry as given, without data.
  Writer& entry(const Entry& entry);
  Writer& alignment(std::uint64_t alignment) { return alignment_ = alignment, *this; }
  Writer& data_bytes(std::uint64_t bytes) { return data_bytes_ = bytes, *this; }
  Writer& counts(std::uint64_t tensors, std::uint64_t pairs);

  /// The whole file; data byte i is i modulo 251.
  std::string finish() const;

 private:
  std::uint32_t version_;
  std::uint64_t tensors_ = 0, pairs_ = 0, alignment_ = 32, data_bytes_ = 0;
  Bytes metadata_, table_;
};

/// Metadata and one tensor of a tiny llama model with a SentencePiece vocabulary, which all readers of GGUF files accept.
Writer sentencepiece_model();
/// The same with a byte-level BPE vocabulary.
Writer bpe_model();
/// Small valid files that together contain every type of metadata and tensor.
std::vector<std::string> samples();

inline std::span<const std::byte> as_span(const std::string& bytes) { return std::as_bytes(std::span(bytes.data(), bytes.size())); }
void write_file(const std::filesystem::path& path, std::string_view bytes);

}  // namespace yamata::gguf_test
