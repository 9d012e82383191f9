#include "src/gguf/writer.hpp"

#include <algorithm>
#include <cassert>

namespace yamata::gguf {
namespace {

constexpr std::uint32_t kVersion = 3, kU32 = 4, kString = 8;  // numbers defined by GGUF

template <class T>
void put(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void put_text(std::string& bytes, std::string_view text) {
  put<std::uint64_t>(bytes, text.size());
  bytes.append(text);
}

std::span<const std::byte> as_bytes(const std::string& text) { return std::as_bytes(std::span(text.data(), text.size())); }

}  // namespace

void Writer::set_raw(const std::string& key, std::span<const std::byte> type_and_value) {
  remove(key);
  pairs_.push_back({key, {reinterpret_cast<const char*>(type_and_value.data()), type_and_value.size()}});
}

void Writer::set_u32(const std::string& key, std::uint32_t value) {
  std::string bytes;
  put(bytes, kU32);
  put(bytes, value);
  set_raw(key, as_bytes(bytes));
}

void Writer::set_string(const std::string& key, std::string_view value) {
  std::string bytes;
  put(bytes, kString);
  put_text(bytes, value);
  set_raw(key, as_bytes(bytes));
}

void Writer::remove(const std::string& key) {
  std::erase_if(pairs_, [&](const Pair& pair) { return pair.key == key; });
}

void Writer::add_tensor(const std::string& name, TensorType type, std::span<const std::int64_t> shape) {
  while (shape.size() > 1 && shape.back() == 1) shape = shape.first(shape.size() - 1);
  std::int64_t elements = 1;
  for (const std::int64_t extent : shape) elements *= extent;
  tensors_.push_back({name, type, {shape.begin(), shape.end()}, row_bytes(type, elements)});
}

void Writer::begin() {
  std::string header = "GGUF";
  put(header, kVersion);
  put<std::uint64_t>(header, tensors_.size());
  put<std::uint64_t>(header, pairs_.size());
  for (const Pair& pair : pairs_) {
    put_text(header, pair.key);
    header += pair.value;
  }
  std::uint64_t offset = 0;
  for (const Entry& tensor : tensors_) {
    put_text(header, tensor.name);
    put(header, static_cast<std::uint32_t>(tensor.shape.size()));
    for (const std::int64_t extent : tensor.shape) put(header, extent);
    put(header, tensor.type);
    put(header, offset);
    offset += tensor.bytes + padding(tensor.bytes);
  }
  sink_(as_bytes(header));
  pad(header.size());
}

void Writer::data(std::span<const std::byte> bytes) {
  assert(current_ < tensors_.size() && bytes.size() <= tensors_[current_].bytes - current_bytes_);
  sink_(bytes);
  current_bytes_ += bytes.size();
  if (current_bytes_ < tensors_[current_].bytes) return;
  pad(current_bytes_);
  ++current_;
  current_bytes_ = 0;
}

void Writer::pad(std::uint64_t after) {
  const std::string zeros(static_cast<std::size_t>(padding(after)), '\0');
  if (!zeros.empty()) sink_(as_bytes(zeros));
}

std::uint64_t Writer::data_bytes() const {
  std::uint64_t sum = 0;
  for (const Entry& tensor : tensors_) sum += tensor.bytes;
  return sum;
}

}  // namespace yamata::gguf
