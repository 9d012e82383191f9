#include "src/grammar/characters.hpp"

#include <algorithm>
#include <array>
#include <string>

namespace yamata {
namespace {

constexpr char32_t kFirstPlain = 0x20;  // below are control characters, which are escaped

/// The ranges of code points with the same number of bytes; surrogates are left out.
constexpr std::array<CharacterRange, 5> kLengths{{{0, 0x7F}, {0x80, 0x7FF}, {0x800, 0xD7FF}, {0xE000, 0xFFFF}, {0x10000, kLastCharacter}}};

std::array<std::uint8_t, 4> utf8_bytes(char32_t c, int length) {
  const auto tail = [&](int shift) { return static_cast<std::uint8_t>(0x80 | (c >> shift & 0x3F)); };
  if (length == 1) return {static_cast<std::uint8_t>(c)};
  if (length == 2) return {static_cast<std::uint8_t>(0xC0 | c >> 6), tail(0)};
  if (length == 3) return {static_cast<std::uint8_t>(0xE0 | c >> 12), tail(6), tail(0)};
  return {static_cast<std::uint8_t>(0xF0 | c >> 18), tail(12), tail(6), tail(0)};
}

/// Reads characters low to high, which have `length` bytes. Splits them until each byte has a range of its own.
void add_bytes_of(ByteAutomaton& automaton, NodeIndex from, CharacterRange range, int length, NodeIndex to) {
  for (int i = 1; i < length; ++i) {
    const char32_t mask = (char32_t{1} << 6 * i) - 1;
    if ((range.low & ~mask) == (range.high & ~mask)) continue;
    if ((range.low & mask) != 0) {
      add_bytes_of(automaton, from, {range.low, range.low | mask}, length, to);
      return add_bytes_of(automaton, from, {(range.low | mask) + 1, range.high}, length, to);
    }
    if ((range.high & mask) != mask) {
      add_bytes_of(automaton, from, {range.low, (range.high & ~mask) - 1}, length, to);
      return add_bytes_of(automaton, from, {range.high & ~mask, range.high}, length, to);
    }
  }
  const auto low = utf8_bytes(range.low, length), high = utf8_bytes(range.high, length);
  for (int i = 0; i < length; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const NodeIndex next = i + 1 == length ? to : automaton.add_node();
    automaton.add_bytes(from, low[at], high[at], next);
    from = next;
  }
}

void add_hex(ByteAutomaton& automaton, NodeIndex from, std::string_view digits, NodeIndex to) {
  for (const char digit : digits) {
    automaton.add_byte(from, digit, to);
    if (digit >= 'A' && digit <= 'F') automaton.add_byte(from, static_cast<char>(digit - 'A' + 'a'), to);
  }
}

/// Reads `count` hexadecimal digits.
void add_hex_digits(ByteAutomaton& automaton, NodeIndex from, int count, NodeIndex to) {
  for (int i = 0; i < count; ++i) {
    const NodeIndex next = i + 1 == count ? to : automaton.add_node();
    add_hex(automaton, from, "0123456789ABCDEF", next);
    from = next;
  }
}

/// The shortest way to write a character that must be escaped.
std::string escape(char32_t c) {
  constexpr std::string_view kLetters = "btnvfr";  // from 8 on; JSON has no \v
  if (c == '"' || c == '\\') return {'\\', static_cast<char>(c)};
  if (c >= 8 && c <= 13 && c != 11) return {'\\', kLetters[c - 8]};
  constexpr std::string_view kDigits = "0123456789abcdef";
  return std::string("\\u00") + kDigits[c >> 4] + kDigits[c & 15];
}

const Characters& written_plainly() {
  static const Characters plain = complement({{0, kFirstPlain - 1}, {'"', '"'}, {'\\', '\\'}});
  return plain;
}

}  // namespace

Characters normalized(Characters ranges) {
  std::sort(ranges.begin(), ranges.end(), [](const CharacterRange& a, const CharacterRange& b) { return a.low < b.low; });
  Characters joined;
  for (const CharacterRange& range : ranges) {
    if (!joined.empty() && range.low <= joined.back().high + 1)
      joined.back().high = std::max(joined.back().high, range.high);
    else
      joined.push_back(range);
  }
  return joined;
}

Characters complement(const Characters& characters) {
  Characters others;
  char32_t next = 0;
  for (const CharacterRange& range : characters) {
    if (range.low > next) others.push_back({next, range.low - 1});
    next = range.high + 1;
  }
  if (next <= kLastCharacter) others.push_back({next, kLastCharacter});
  return others;
}

Characters intersection(const Characters& a, const Characters& b) {
  Characters both;
  for (auto x = a.begin(), y = b.begin(); x != a.end() && y != b.end();) {
    const char32_t low = std::max(x->low, y->low), high = std::min(x->high, y->high);
    if (low <= high) both.push_back({low, high});
    x->high < y->high ? ++x : ++y;
  }
  return both;
}

bool contains(const Characters& characters, char32_t character) {
  return std::ranges::any_of(characters, [&](const CharacterRange& r) { return character >= r.low && character <= r.high; });
}

void add_utf8(ByteAutomaton& automaton, NodeIndex from, const Characters& characters, NodeIndex to) {
  for (std::size_t i = 0; i < kLengths.size(); ++i) {
    const int length = i < 3 ? static_cast<int>(i) + 1 : static_cast<int>(i);
    for (const CharacterRange& range : intersection(characters, {kLengths[i]})) add_bytes_of(automaton, from, range, length, to);
  }
}

void add_in_string(ByteAutomaton& automaton, NodeIndex from, const Characters& characters, NodeIndex to) {
  add_utf8(automaton, from, intersection(characters, written_plainly()), to);
  for (const CharacterRange& range : intersection(characters, {{0, '\\'}})) {
    for (char32_t c = range.low; c <= range.high; ++c) {
      if (!contains(written_plainly(), c)) automaton.add_text(from, escape(c), to);
    }
  }
}

void add_any_in_string(ByteAutomaton& automaton, NodeIndex from, NodeIndex to) {
  add_utf8(automaton, from, written_plainly(), to);
  const NodeIndex escaped = automaton.add_node(), unicode = automaton.add_node();
  automaton.add_byte(from, '\\', escaped);
  for (const char c : std::string_view("\"\\/bfnrt")) automaton.add_byte(escaped, c, to);
  automaton.add_byte(escaped, 'u', unicode);
  const NodeIndex three = automaton.add_node(), after_d = automaton.add_node(), low = automaton.add_node(), two = automaton.add_node();
  add_hex(automaton, unicode, "0123456789ABCEF", three);
  add_hex(automaton, unicode, "D", after_d);
  add_hex(automaton, after_d, "01234567", two);
  add_hex_digits(automaton, three, 1, two);
  add_hex_digits(automaton, two, 2, to);
  // The two halves of a character beyond 0xFFFF.
  const NodeIndex high_rest = automaton.add_node(), second = automaton.add_node(), second_rest = automaton.add_node();
  add_hex(automaton, after_d, "89AB", high_rest);
  add_hex_digits(automaton, high_rest, 2, low);
  automaton.add_text(low, "\\u", second);
  const NodeIndex second_d = automaton.add_node();
  add_hex(automaton, second, "D", second_d);
  add_hex(automaton, second_d, "CDEF", second_rest);
  add_hex_digits(automaton, second_rest, 2, to);
}

}  // namespace yamata
