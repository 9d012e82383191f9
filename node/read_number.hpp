#pragma once
// Numbers in texts.
#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace yamata {

/// The whole word as a number, in any locale; nothing if it is not one, or does not fit. Spaces, a plus sign and 0x are not part of
/// numbers; "inf" and "nan" are floating-point numbers.
template <class T>
std::optional<T> read_number(std::string_view word) {
  T number{};
  const char* const end = word.data() + word.size();
  const auto [stopped, error] = std::from_chars(word.data(), end, number);
  return error == std::errc{} && stopped == end ? std::optional(number) : std::nullopt;
}

}  // namespace yamata
