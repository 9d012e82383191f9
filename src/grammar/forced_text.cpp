#include "src/grammar/forced_text.hpp"

#include <algorithm>
#include <bit>

namespace yamata {
namespace {

bool is_blank(char byte) { return byte == ' ' || byte == '\n' || byte == '\t'; }
bool has(const std::array<std::uint64_t, 4>& bytes, char byte) {
  const auto b = static_cast<std::uint8_t>(byte);
  return (bytes[b / 64] >> b % 64 & 1) != 0;
}

/// The only byte of the set, white space apart; nothing: there are several, or none.
std::optional<char> only_byte(std::array<std::uint64_t, 4> bytes, bool blanks_count) {
  if (!blanks_count) {
    for (const char blank : {' ', '\n', '\t'}) bytes[0] &= ~(std::uint64_t{1} << blank);
  }
  int count = 0;
  char found = 0;
  for (std::size_t word = 0; word < bytes.size(); ++word) {
    count += std::popcount(bytes[word]);
    if (bytes[word] != 0) found = static_cast<char>(64 * word + static_cast<std::size_t>(std::countr_zero(bytes[word])));
  }
  return count == 1 ? std::optional(found) : std::nullopt;
}

}  // namespace

void ForcedText::Position::move(char byte) {
  if (!in_string && is_blank(byte)) {
    space += byte;
    return;
  }
  space.clear();
  last = byte;
  if (!in_string) {
    in_string = byte == '"';
  } else if (escaped) {
    escaped = false;
  } else {
    escaped = byte == '\\';
    in_string = byte != '"';
  }
}

std::optional<ForcedText::Place> ForcedText::place_between(char last, char next) {
  const bool opening = last == '{' || last == '[', closing = next == '}' || next == ']';
  if (opening && closing) return std::nullopt;
  if (closing) return kBeforeClosing;
  if (opening) return kAfterOpening;
  if (last == ':') return kAfterColon;
  return last == ',' ? std::optional(kAfterComma) : std::nullopt;
}

/// How deep what stands in a new line is indented.
std::size_t ForcedText::depth(GrammarReader::Place place, Place where) const {
  std::size_t levels = 0;
  for (; place.parent != 0; place = grammar_->reader().at(place.parent)) ++levels;
  return where == kBeforeClosing && levels > 0 ? levels - 1 : levels;
}

std::string ForcedText::blanks(Place where, std::size_t depth) const {
  const bool indented = where == kAfterComma && blanks_[kAfterOpening].start == "\n";
  const bool like_opening = !blanks_[where].known && (where == kBeforeClosing || indented);
  const Blanks& known = blanks_[like_opening ? kAfterOpening : where];
  return known.start + std::string(known.start == "\n" ? known.per_level * depth : 0, known.blank);
}

void ForcedText::learn(Place where, std::size_t depth, const std::string& space) {
  if (!space.starts_with('\n')) {
    blanks_[where] = {.start = space, .known = true};
    return;
  }
  const std::size_t width = space.size() - 1;
  Blanks& known = blanks_[where];
  known.start = "\n";
  known.known = true;
  if (depth > 0) {
    known.per_level = width / depth;
    known.blank = width > 0 ? space.back() : ' ';
  } else if (where == kBeforeClosing) {
    known.per_level = blanks_[kAfterOpening].per_level;
    known.blank = blanks_[kAfterOpening].blank;
  }
}

void ForcedText::read(TokenGrammar::State before, std::string_view bytes) {
  if (before == TokenGrammar::kForbidden || TokenGrammar::ended(before)) return;
  GrammarReader& reader = grammar_->reader();
  GrammarReader::Place place = grammar_->place(before);
  for (const char byte : bytes) {
    const bool free = reader.free(place);
    if (!free && !position_.in_string && !is_blank(byte)) {
      if (const auto where = place_between(position_.last, byte)) learn(*where, depth(place, *where), position_.space);
    }
    if (!reader.step(place, static_cast<std::uint8_t>(byte))) return;
    free ? void(position_ = {}) : position_.move(byte);
  }
}

/// Adds the next byte and the white space before it. False: there is a choice.
bool ForcedText::extend(std::string& text, Position& position, GrammarReader::Place& place) const {
  GrammarReader& reader = grammar_->reader();
  const std::array<std::uint64_t, 4> bytes = reader.following(place);
  const auto next = only_byte(bytes, position.in_string);
  if (!next || reader.accepting(place) || reader.free(place)) return false;
  std::string added;
  const bool space = !position.in_string && (has(bytes, ' ') || has(bytes, '\n') || has(bytes, '\t'));
  if (const auto where = place_between(position.last, *next); space && where) {
    added = blanks(*where, depth(place, *where));
    added.erase(0, added.starts_with(position.space) ? position.space.size() : added.size());
  }
  added += *next;
  GrammarReader::Place end = place;
  for (const char byte : added) {
    if (!reader.step(end, static_cast<std::uint8_t>(byte))) return false;
  }
  for (const char byte : added) position.move(byte);
  place = end;
  text += added;
  return true;
}

std::string ForcedText::continuation(TokenGrammar::State state, std::size_t most) const {
  std::string text;
  if (state == TokenGrammar::kForbidden || TokenGrammar::ended(state)) return text;
  GrammarReader::Place place = grammar_->place(state);
  Position position = position_;
  while (text.size() < most && extend(text, position, place)) {
  }
  return text;
}

std::vector<std::int32_t> tokens_of_forced(const GrammarVocabulary& vocabulary, std::string_view before, std::string_view forced) {
  std::vector<std::int32_t> tokens = vocabulary.encode(std::string(before) + std::string(forced));
  std::size_t length = 0, at = 0;  // a tokenizer may put a space before the text
  for (const std::int32_t token : tokens) length += vocabulary.token(token).bytes.size();
  const std::size_t skipped = length - std::min(length, forced.size());
  length = 0;
  for (; at < tokens.size() && length < skipped; ++at) length += vocabulary.token(tokens[at]).bytes.size();
  tokens.erase(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(at));
  if (length == skipped && !tokens.empty()) return tokens;
  tokens.clear();  // the tokenizer joins the two
  for (std::int32_t token; (token = vocabulary.longest_prefix(forced)) >= 0;) {
    tokens.push_back(token);
    forced.remove_prefix(vocabulary.token(token).bytes.size());
  }
  return tokens;
}

}  // namespace yamata
