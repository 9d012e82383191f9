#include "launch/program/options/given_flags.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>
#include <system_error>
#include <type_traits>

#include "node/read_number.hpp"

namespace yamata {
namespace {

/// Whole numbers may be hexadecimal: 0x10. Others are finite.
template <class Number>
std::optional<Number> read_value(const std::string& text) {
  if constexpr (std::is_floating_point_v<Number>) {
    const auto number = read_number<Number>(text);
    return number && std::isfinite(*number) ? number : std::nullopt;
  } else {
    const bool hexadecimal = text.starts_with("0x") && text.size() > 2 && text[2] != '-';
    if (!hexadecimal) return read_number<Number>(text);
    Number number{};
    const auto [end, error] = std::from_chars(text.data() + 2, text.data() + text.size(), number, 16);
    return error == std::errc{} && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
  }
}

}  // namespace

bool is_value(FlagKind kind, const std::string& text) {
  switch (kind) {
    case FlagKind::kInt:
      return read_value<int>(text).has_value();
    case FlagKind::kUint64:
      return read_value<std::uint64_t>(text).has_value();
    case FlagKind::kFloat:
      return read_value<float>(text).has_value();
    case FlagKind::kDouble:
      return read_value<double>(text).has_value();
    default:
      return true;
  }
}

GivenFlags::GivenFlags(const Flags& flags) {
  for (const Flag& flag : flags.all()) flags_.emplace(flag.name, flag);
}

std::string GivenFlags::text(const std::string& name) const { return given(name) ? values_.at(name).back() : flags_.at(name).fallback; }

template <class Number>
Number GivenFlags::number(const std::string& name) const {
  return read_value<Number>(text(name)).value();
}
template int GivenFlags::number<int>(const std::string&) const;
template std::uint64_t GivenFlags::number<std::uint64_t>(const std::string&) const;
template float GivenFlags::number<float>(const std::string&) const;
template double GivenFlags::number<double>(const std::string&) const;

std::vector<std::string> GivenFlags::all(const std::string& name) const {
  return given(name) ? values_.at(name) : std::vector<std::string>{};
}

std::vector<std::string> GivenFlags::list(const std::string& name) const {
  std::vector<std::string> list;
  for (const std::string& value : all(name)) {
    std::vector<std::string> words = split_list(value);
    if (words.size() > 1 && words.back().empty()) words.pop_back();  // a comma at the end
    list.insert(list.end(), words.begin(), words.end());
  }
  return list;
}

std::string GivenFlags::joined(const std::string& name) const {
  return given(name) ? fmt::format("{}", fmt::join(values_.at(name), ",")) : flags_.at(name).fallback;
}

std::vector<std::string> split_list(const std::string& text) {
  std::vector<std::string> words;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    words.push_back(text.substr(at, comma - at));
    at = comma + 1;
  }
  return words;
}

}  // namespace yamata
