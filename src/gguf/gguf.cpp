#include "src/gguf/gguf.hpp"

#include <fmt/format.h>

#include <cstring>

#include "node/error.hpp"
#include "src/gguf/mapping.hpp"

namespace yamata::gguf {

void File::require_present(const Tensor& tensor, std::span<const std::byte> bytes) const {
  if (presence_ && !presence_->has(bytes))
    throw ModelError(fmt::format("{}: tensor {} has not been fetched from rank 0; this is a bug in yamata", name_, tensor.name));
}

std::vector<File::Part> File::parts() const {
  std::vector<Part> parts;
  for (const auto& mapping : mappings_) parts.push_back({mapping->bytes, static_cast<std::size_t>(mapping->header_bytes)});
  return parts;
}

std::vector<std::int64_t> Tensor::integers() const {
  if (integer_bytes == 0) throw ModelError(fmt::format("tensor {} is of type {}, not of whole numbers", name, traits(type).name));
  std::vector<std::int64_t> values(bytes / static_cast<std::size_t>(integer_bytes));
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::int32_t value = 0;
    integer_bytes == 8 ? std::memcpy(&values[i], data + 8 * i, 8) : std::memcpy(&value, data + 4 * i, 4);
    if (integer_bytes == 4) values[i] = value;
  }
  return values;
}

std::int64_t Tensor::rows() const {
  std::int64_t n = 1;
  for (std::size_t i = 1; i < shape.size(); ++i) n *= shape[i];
  return n;
}

File::File() = default;
File::~File() = default;
File::File(File&&) noexcept = default;
File& File::operator=(File&&) noexcept = default;

const Tensor* File::find(std::string_view tensor) const {
  const auto it = index_.find(std::string(tensor));
  return it == index_.end() ? nullptr : &tensors_[it->second];
}

const Tensor& File::tensor(std::string_view name) const {
  if (const Tensor* found = find(name)) return *found;
  throw ModelError(fmt::format("{}: tensor {} is missing; the file is not complete or not of this architecture", name_, name));
}

namespace {

[[noreturn]] void wrong_kind(const File& file, const std::string& key, const char* wanted) {
  throw ModelError(fmt::format("{}: metadata {} is not {}", file.name(), key, wanted));
}

const Value* lookup(const File& file, const std::string& key) {
  const auto it = file.metadata().find(key);
  return it == file.metadata().end() ? nullptr : &it->second;
}

}  // namespace

std::optional<std::int64_t> File::integer(const std::string& key) const {
  const Value* value = lookup(*this, key);
  if (!value) return std::nullopt;
  if (const auto* i = std::get_if<std::int64_t>(value)) return *i;
  if (const auto* u = std::get_if<std::uint64_t>(value); u && *u <= static_cast<std::uint64_t>(INT64_MAX))
    return static_cast<std::int64_t>(*u);
  wrong_kind(*this, key, "an integer");
}

std::optional<double> File::number(const std::string& key) const {
  const Value* value = lookup(*this, key);
  if (!value) return std::nullopt;
  if (const auto* d = std::get_if<double>(value)) return *d;
  if (const auto* i = std::get_if<std::int64_t>(value)) return static_cast<double>(*i);
  if (const auto* u = std::get_if<std::uint64_t>(value)) return static_cast<double>(*u);
  wrong_kind(*this, key, "a number");
}

std::optional<bool> File::boolean(const std::string& key) const {
  const Value* value = lookup(*this, key);
  if (!value) return std::nullopt;
  if (const auto* b = std::get_if<bool>(value)) return *b;
  wrong_kind(*this, key, "a boolean");
}

std::optional<std::string> File::string(const std::string& key) const {
  const Value* value = lookup(*this, key);
  if (!value) return std::nullopt;
  if (const auto* s = std::get_if<std::string>(value)) return *s;
  wrong_kind(*this, key, "a string");
}

const std::vector<std::string>* File::strings(const std::string& key) const {
  const Value* value = lookup(*this, key);
  if (!value) return nullptr;
  if (const auto* list = std::get_if<std::vector<std::string>>(value)) return list;
  wrong_kind(*this, key, "an array of strings");
}

std::vector<double> File::numbers(const std::string& key) const {
  const Value* value = lookup(*this, key);
  if (!value) return {};
  if (const auto* d = std::get_if<std::vector<double>>(value)) return *d;
  if (const auto* i = std::get_if<std::vector<std::int64_t>>(value)) return {i->begin(), i->end()};
  if (const auto* u = std::get_if<std::vector<std::uint64_t>>(value)) return {u->begin(), u->end()};
  wrong_kind(*this, key, "an array of numbers");
}

}  // namespace yamata::gguf
