#pragma once
// Character boundaries in bytes that may not be valid UTF-8.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace yamata {

/// Length in bytes of a character with this lead byte; 0 for a byte that is not a lead byte.
inline std::size_t utf8_lead_length(std::uint8_t lead) {
  if (lead < 0x80) return 1;
  if (lead < 0xC2) return 0;
  if (lead < 0xE0) return 2;
  if (lead < 0xF0) return 3;
  return lead < 0xF5 ? 4 : 0;
}

/// Length in bytes of the character at `at`; 0 if the bytes are not valid UTF-8 (overlong forms and surrogates are not valid).
inline std::size_t utf8_length(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[at + i]); };
  const std::size_t length = utf8_lead_length(byte(0));
  if (length == 0 || at + length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  if (byte(0) == 0xE0 && byte(1) < 0xA0) return 0;
  if (byte(0) == 0xED && byte(1) >= 0xA0) return 0;
  if (byte(0) == 0xF0 && byte(1) < 0x90) return 0;
  if (byte(0) == 0xF4 && byte(1) >= 0x90) return 0;
  return length;
}

/// Number of bytes before the first that is not valid UTF-8.
inline std::size_t valid_utf8_bytes(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t length = utf8_length(text, at);
    if (length == 0) break;
    at += length;
  }
  return at;
}

/// Whether all bytes are such as follow a lead byte.
inline bool continues_utf8(std::string_view bytes) {
  return std::ranges::all_of(bytes, [](char byte) { return (static_cast<std::uint8_t>(byte) & 0xC0) == 0x80; });
}

}  // namespace yamata
