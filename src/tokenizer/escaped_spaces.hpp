#pragma once
// Vocabularies of characters write U+2581 for a space.
#include <string>
#include <string_view>

namespace yamata {

inline constexpr std::string_view kEscapedSpace = "\xE2\x96\x81";  // U+2581

inline std::string escape_spaces(std::string_view text) {
  std::string escaped;
  escaped.reserve(text.size() + text.size() / 2);
  for (const char c : text) {
    if (c == ' ') {
      escaped += kEscapedSpace;
    } else {
      escaped += c;
    }
  }
  return escaped;
}

inline std::string unescape_spaces(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const bool space = text.substr(at, kEscapedSpace.size()) == kEscapedSpace;
    out += space ? ' ' : text[at];
    at += space ? kEscapedSpace.size() : 1;
  }
  return out;
}

}  // namespace yamata
