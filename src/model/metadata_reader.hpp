#pragma once
// Reads a family's metadata, whose keys begin with its name, and notes which were read.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "node/error.hpp"
#include "src/gguf/gguf.hpp"

namespace yamata {

/// Keys are given without their prefix. Throws ModelError with the key if a value is missing or out of range.
class MetadataReader {
 public:
  MetadataReader(const gguf::File& file, const char* family) : file_(file), prefix_(std::string(family) + ".") {}

  const gguf::File& file() const { return file_; }
  bool has(const char* key) const { return file_.metadata().contains(note(key)); }
  /// Throws ModelError with the first key that the file does not have.
  void require(std::initializer_list<const char*> keys) const {
    for (const char* key : keys) {
      if (!has(key)) missing(key);
    }
  }
  /// From 1 to `most`.
  std::int64_t count(const char* key, std::int64_t most, std::optional<std::int64_t> absent = {}) const {
    return within(key, 1, most, absent);
  }
  /// The same for a key that may be a list with a number per layer. The numbers must be equal: throws ModelError if they differ. With
  /// `each`, they may differ and become its values, of which the greatest is returned. With `gaps`, some may be 0.
  std::int64_t per_layer(const char* key, std::int64_t most, std::optional<std::int64_t> absent = {},
                         std::vector<std::int64_t>* each = nullptr, bool gaps = false) const {
    const auto found = file_.metadata().find(note(key));
    const bool list = found != file_.metadata().end() && (std::holds_alternative<std::vector<std::uint64_t>>(found->second) ||
                                                          std::holds_alternative<std::vector<std::int64_t>>(found->second));
    if (!list) return within(key, 1, most, absent);
    std::vector<double> numbers = file_.numbers(prefix_ + key);
    const auto number = [&](double n) { return in_range(key, static_cast<std::int64_t>(std::clamp(n, -1e18, 1e18)), 1, most); };
    if (gaps) std::erase(numbers, 0.0);
    if (gaps && numbers.empty() && absent) return *absent;
    for (std::size_t i = 0; each && i < numbers.size(); ++i) each->push_back(number(numbers[i]));
    if (each && !each->empty()) return std::ranges::max(*each);
    if (numbers.empty() || std::ranges::any_of(numbers, [&](double n) { return n != numbers.front(); })) {
      throw ModelError(fmt::format("{}: {}{} differs between layers, which is not supported", file_.name(), prefix_, key));
    }
    return number(numbers.front());
  }
  /// Throws ModelError: the file's name, and why it is not read.
  [[noreturn]] void refuse(const std::string& what) const { throw ModelError(fmt::format("{}: {}", file_.name(), what)); }
  /// For each value of a list of booleans or of numbers, whether it is not 0; nothing if the key is absent or a number.
  std::optional<std::vector<bool>> flags(const char* key) const {
    const auto found = file_.metadata().find(note(key));
    if (found == file_.metadata().end()) return std::nullopt;
    if (const auto* flags = std::get_if<std::vector<bool>>(&found->second)) return *flags;
    if (std::holds_alternative<std::uint64_t>(found->second) || std::holds_alternative<std::int64_t>(found->second)) return std::nullopt;
    std::vector<bool> flags;
    for (const double number : file_.numbers(prefix_ + key)) flags.push_back(number != 0);
    return flags;
  }
  /// The same, if there is a flag for each of so many layers; else throws ModelError.
  std::optional<std::vector<bool>> layer_flags(const char* key, std::int64_t layers) const {
    std::optional<std::vector<bool>> listed = flags(key);
    if (listed && std::ssize(*listed) < layers) {
      throw ModelError(
          fmt::format("{}: {}{} has {} values for {} layers; convert the model again", file_.name(), prefix_, key, listed->size(), layers));
    }
    return listed;
  }
  /// From 0 to `most`.
  std::int64_t count_or_none(const char* key, std::int64_t most, std::int64_t absent = 0) const { return within(key, 0, most, absent); }
  /// A finite number greater than 0.
  float real(const char* key, std::optional<double> absent = {}) const {
    const auto found = file_.number(note(key));
    if (!found && !absent) missing(key);
    const auto value = static_cast<float>(found.value_or(absent.value_or(0)));
    if (!(value > 0) || std::isinf(value)) {
      throw ModelError(fmt::format("{}: {}{} is {}, not a positive number; convert the model again", file_.name(), prefix_, key, value));
    }
    return value;
  }
  /// The same, or 0.
  float real_or_none(const char* key, double absent = 0) const {
    return file_.number(note(key)).value_or(absent) == 0 ? 0.0f : real(key, absent);
  }
  bool boolean(const char* key, bool absent) const { return file_.boolean(note(key)).value_or(absent); }
  std::string string(const char* key, const char* absent) const { return file_.string(note(key)).value_or(absent); }
  /// The family's keys in the file that were not read, without their prefix.
  std::vector<std::string> unread() const {
    std::vector<std::string> keys;
    for (const auto& [key, value] : file_.metadata()) {
      if (key.starts_with(prefix_) && !read_.contains(key)) keys.push_back(key.substr(prefix_.size()));
    }
    return keys;
  }

 private:
  std::int64_t within(const char* key, std::int64_t least, std::int64_t most, std::optional<std::int64_t> absent) const {
    const auto value = file_.integer(note(key));
    if (!value && absent) return *absent;
    if (!value) missing(key);
    return in_range(key, *value, least, most);
  }
  std::int64_t in_range(const char* key, std::int64_t value, std::int64_t least, std::int64_t most) const {
    if (value < least || value > most)
      throw ModelError(fmt::format("{}: {}{} is {}, outside {}..{}", file_.name(), prefix_, key, value, least, most));
    return value;
  }
  [[noreturn]] void missing(const char* key) const {
    throw ModelError(fmt::format("{}: {}{} is missing; the file is not complete", file_.name(), prefix_, key));
  }
  std::string note(const char* key) const {
    std::string whole = prefix_ + key;
    read_.insert(whole);
    return whole;
  }

  const gguf::File& file_;
  std::string prefix_;
  mutable std::set<std::string> read_;
};

}  // namespace yamata
