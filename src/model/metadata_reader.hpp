#pragma once
// Reads a family's metadata, whose keys begin with its name.
#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>

#include "node/error.hpp"
#include "src/gguf/gguf.hpp"

namespace yamata {

/// Keys are given without their prefix. Throws ModelError with the key if a value is missing or out of range.
class MetadataReader {
 public:
  MetadataReader(const gguf::File& file, const char* family) : file_(file), prefix_(std::string(family) + ".") {}

  bool has(const char* key) const { return file_.metadata().contains(prefix_ + key); }
  /// From 1 to `most`.
  std::int64_t count(const char* key, std::int64_t most, std::optional<std::int64_t> absent = {}) const {
    return within(key, 1, most, absent);
  }
  /// From 0 to `most`.
  std::int64_t count_or_none(const char* key, std::int64_t most, std::int64_t absent = 0) const { return within(key, 0, most, absent); }
  /// A finite number greater than 0.
  float real(const char* key, double absent) const {
    const auto value = static_cast<float>(file_.number(prefix_ + key).value_or(absent));
    if (!(value > 0) || std::isinf(value)) {
      throw ModelError(fmt::format("{}: {}{} is {}, not a positive number; convert the model again", file_.name(), prefix_, key, value));
    }
    return value;
  }
  /// The same, or 0.
  float real_or_none(const char* key, double absent = 0) const {
    return file_.number(prefix_ + key).value_or(absent) == 0 ? 0.0f : real(key, absent);
  }
  bool boolean(const char* key, bool absent) const { return file_.boolean(prefix_ + key).value_or(absent); }
  std::string string(const char* key, const char* absent) const { return file_.string(prefix_ + key).value_or(absent); }

 private:
  std::int64_t within(const char* key, std::int64_t least, std::int64_t most, std::optional<std::int64_t> absent) const {
    const auto value = file_.integer(prefix_ + key);
    if (!value && absent) return *absent;
    if (!value) throw ModelError(fmt::format("{}: {}{} is missing; the file is not complete", file_.name(), prefix_, key));
    if (*value < least || *value > most) {
      throw ModelError(fmt::format("{}: {}{} is {}, outside {}..{}", file_.name(), prefix_, key, *value, least, most));
    }
    return *value;
  }

  const gguf::File& file_;
  std::string prefix_;
};

}  // namespace yamata
