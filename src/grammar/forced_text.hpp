#pragma once
// What a schema lets a text say in one way only.
#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "src/grammar/token_grammar.hpp"

namespace yamata {

/// Follows a text, and knows how it is continued where a schema leaves no choice but white space: as it was written so far.
class ForcedText {
 public:
  explicit ForcedText(TokenGrammar& grammar) : grammar_(&grammar) {}

  /// The text grows by a token's bytes, from the state before them.
  void read(TokenGrammar::State before, std::string_view bytes);
  /// The bytes that follow if the text goes on as before, at most `most`, at the state of its end. Empty: there is a choice.
  std::string continuation(TokenGrammar::State state, std::size_t most) const;

 private:
  /// Where white space may stand.
  enum Place : std::size_t { kAfterOpening, kAfterColon, kAfterComma, kBeforeClosing, kPlaces };
  /// A space, a new line with blanks by depth, or nothing.
  struct Blanks {
    std::string start;
    std::size_t per_level = 0;
    char blank = ' ';
    bool known = false;  // of this text
  };
  struct Position {
    bool in_string = false, escaped = false;
    char last = 0;      // byte that is no white space
    std::string space;  // since then
    void move(char byte);
  };

  static std::optional<Place> place_between(char last, char next);
  std::size_t depth(GrammarReader::Place place, Place where) const;
  std::string blanks(Place where, std::size_t depth) const;
  void learn(Place where, std::size_t depth, const std::string& space);
  bool extend(std::string& text, Position& position, GrammarReader::Place& place) const;

  TokenGrammar* grammar_;
  Position position_;
  std::array<Blanks, kPlaces> blanks_{{{}, {" "}, {" "}, {}}};
};

/// The tokens of `forced` behind `before`, as the vocabulary's tokenizer writes them.
std::vector<std::int32_t> tokens_of_forced(const GrammarVocabulary& vocabulary, std::string_view before, std::string_view forced);

}  // namespace yamata
