// Parses regular expressions.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "node/error.hpp"
#include "src/grammar/pattern_tree.hpp"
#include "src/tokenizer/utf8.hpp"

namespace yamata {
namespace {

using Kind = PatternNode::Kind;

constexpr std::size_t kMostCharacters = 4096;
constexpr int kDeepest = 50, kMostRepeats = 1000;

[[noreturn]] void refuse(const std::string& what) { throw UsageError(fmt::format("'pattern': {}", what)); }

const Characters kAscii{{0, 0x7F}}, kDigits{{'0', '9'}}, kWord{{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}, kSpace{{9, 13}, {' ', ' '}},
    kNoNewline = complement({{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}});

std::u32string decode(std::string_view text) {
  std::u32string characters;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_length(text, at);
    if (length == 0) refuse("is not UTF-8");
    const auto lead = static_cast<std::uint8_t>(text[at]);
    char32_t c = length == 1 ? lead : lead & (0xFFu >> (length + 1));
    for (std::size_t i = 1; i < length; ++i) c = c << 6 | (static_cast<std::uint8_t>(text[at + i]) & 0x3Fu);
    characters.push_back(c);
    at += length;
  }
  if (characters.size() > kMostCharacters) refuse(fmt::format("is longer than {} characters", kMostCharacters));
  return characters;
}

class PatternParser {
 public:
  explicit PatternParser(std::string_view pattern) : text_(decode(pattern)) {}

  PatternNode parse() {
    PatternNode all = alternatives(0);
    if (at_ < text_.size()) refuse("has a ) without a (");
    return all;
  }

 private:
  bool next_is(char32_t c) const { return at_ < text_.size() && text_[at_] == c; }
  bool take(char32_t c) {
    if (!next_is(c)) return false;
    ++at_;
    return true;
  }
  bool take_all(std::u32string_view text) {
    if (std::u32string_view(text_).substr(at_, text.size()) != text) return false;
    at_ += text.size();
    return true;
  }
  char32_t take_any(const char* where) {
    if (at_ >= text_.size()) refuse(fmt::format("ends within {}", where));
    return text_[at_++];
  }

  PatternNode alternatives(int depth) {
    if (depth > kDeepest) refuse("has too many groups within each other");
    PatternNode all{.kind = Kind::kAlternatives};
    do all.parts.push_back(sequence(depth));
    while (take('|'));
    return all;
  }

  PatternNode sequence(int depth) {
    PatternNode all{.kind = Kind::kSequence};
    while (at_ < text_.size() && !next_is('|') && !next_is(')')) {
      PatternNode part = atom(depth);
      const bool anchor = part.kind == Kind::kBegin || part.kind == Kind::kEnd;
      all.parts.push_back(anchor ? std::move(part) : repeated(std::move(part)));
    }
    return all;
  }

  PatternNode atom(int depth) {
    const char32_t c = text_[at_++];
    if (c == '^') return {.kind = Kind::kBegin};
    if (c == '$') return {.kind = Kind::kEnd};
    if (c == '(') return group(depth);
    if (c == '.') return of(kNoNewline);
    if (c == '[') return of(bracket());
    if (c == '\\') return of(escape(false));
    if (c == '*' || c == '+' || c == '?') refuse(fmt::format("has a {} that repeats nothing", static_cast<char>(c)));
    if (c == '{' || c == '}' || c == ']') refuse(fmt::format("has a {0} alone; write \\{0}", static_cast<char>(c)));
    return of({{c, c}});
  }

  static PatternNode of(Characters characters) { return {.kind = Kind::kCharacters, .characters = std::move(characters)}; }

  PatternNode group(int depth) {
    if (take_all(U"?:")) {
    } else if (take_all(U"?=") || take_all(U"?!") || take_all(U"?<=") || take_all(U"?<!")) {
      refuse("look-ahead and look-behind are not supported");
    } else if (take_all(U"?<")) {
      while (take_any("the name of a group") != '>') {
      }
    } else if (next_is('?')) {
      refuse("has an unknown kind of group");
    }
    PatternNode inside = alternatives(depth + 1);
    if (!take(')')) refuse("has a ( without a )");
    return inside;
  }

  PatternNode repeated(PatternNode part) {
    PatternNode all{.kind = Kind::kRepeat};
    if (take('*')) {
    } else if (take('+')) {
      all.least = 1;
    } else if (take('?')) {
      all.most = 1;
    } else if (take('{')) {
      all.least = count();
      if (!take(',')) {
        all.most = all.least;
      } else if (!next_is('}')) {
        all.most = count();
      }
      if (!take('}')) refuse("has a { that is no number of repetitions; write \\{");
      if (all.most && *all.most < all.least) refuse("has numbers out of order in {}");
    } else {
      return part;
    }
    take('?');  // as few as possible: the same strings
    if (next_is('*') || next_is('+') || next_is('?') || next_is('{')) refuse("has a repetition of a repetition");
    all.parts.push_back(std::move(part));
    return all;
  }

  int count() {
    int n = 0;
    if (at_ >= text_.size() || !contains(kDigits, text_[at_])) refuse("has a { that is no number of repetitions; write \\{");
    while (at_ < text_.size() && contains(kDigits, text_[at_])) {
      n = 10 * n + static_cast<int>(text_[at_++] - '0');
      if (n > kMostRepeats) refuse(fmt::format("repeats more than {} times", kMostRepeats));
    }
    return n;
  }

  Characters bracket() {
    const bool others = take('^');
    Characters all;
    bool classes = false;
    while (!take(']')) {
      const char32_t c = take_any("[]");
      const Characters first = c == '\\' ? escape(true) : Characters{{c, c}};
      const bool single = first.size() == 1 && first[0].low == first[0].high;
      classes |= !single;
      if (!single || !next_is('-') || at_ + 1 >= text_.size() || text_[at_ + 1] == ']') {
        all.insert(all.end(), first.begin(), first.end());
        continue;
      }
      ++at_;
      const char32_t d = take_any("[]");
      const Characters last = d == '\\' ? escape(true) : Characters{{d, d}};
      if (last.size() != 1 || last[0].low != last[0].high || last[0].low < first[0].low) refuse("has a range out of order in []");
      all.push_back({first[0].low, last[0].low});
    }
    all = normalized(std::move(all));
    if (!others) return all;
    return classes ? intersection(complement(all), kAscii) : complement(all);
  }

  Characters escape(bool in_bracket) {
    const char32_t c = take_any("an escape");
    switch (c) {
      case 'd':
        return kDigits;
      case 'w':
        return kWord;
      case 's':
        return kSpace;
      case 'D':
        return intersection(complement(kDigits), kAscii);
      case 'W':
        return intersection(complement(kWord), kAscii);
      case 'S':
        return intersection(complement(kSpace), kAscii);
      case 't':
        return {{'\t', '\t'}};
      case 'n':
        return {{'\n', '\n'}};
      case 'r':
        return {{'\r', '\r'}};
      case 'f':
        return {{'\f', '\f'}};
      case 'v':
        return {{'\v', '\v'}};
      case 'x':
        return hex(2);
      case 'u':
        return hex(4);
      default:
        break;
    }
    if (c == 'b' && in_bracket) return {{'\b', '\b'}};
    if (c == '0' && (at_ >= text_.size() || !contains(kDigits, text_[at_]))) return {{0, 0}};
    if (c == 'b' || c == 'B') refuse("word boundaries are not supported");
    if (c == 'k' || contains(kDigits, c)) refuse("back references are not supported");
    if (c == 'p' || c == 'P') refuse("properties of characters (\\p) are not supported");
    if (contains(kWord, c)) refuse(fmt::format("the escape \\{} is not supported", static_cast<char>(c)));
    return {{c, c}};
  }

  Characters hex(int digits) {
    const bool braces = digits == 4 && take('{');
    char32_t value = 0;
    for (int i = 0; braces ? !take('}') : i < digits; ++i) {
      const char32_t c = take_any("an escape");
      if (contains(kDigits, c))
        value = value * 16 + (c - '0');
      else if (const char32_t lower = c | 0x20; lower >= 'a' && lower <= 'f')
        value = value * 16 + (lower - 'a' + 10);
      else
        refuse("has an escape whose number is not hexadecimal");
      if (value > kLastCharacter) refuse("has an escape beyond the last character");
    }
    if (value >= 0xD800 && value <= 0xDFFF) refuse("has an escape of half a character; write \\u{...}");
    return {{value, value}};
  }

  const std::u32string text_;
  std::size_t at_ = 0;
};

}  // namespace

PatternNode parse_pattern(std::string_view pattern) { return PatternParser(pattern).parse(); }

}  // namespace yamata
