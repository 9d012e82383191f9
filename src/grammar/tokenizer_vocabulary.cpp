#include "src/grammar/tokenizer_vocabulary.hpp"

#include <utility>

namespace yamata {

std::shared_ptr<const GrammarVocabulary> grammar_vocabulary(const Tokenizer& tokenizer) {
  std::vector<GrammarToken> tokens(static_cast<std::size_t>(tokenizer.size()));
  for (TokenId id = 0; id < tokenizer.size(); ++id) {
    GrammarToken& token = tokens[static_cast<std::size_t>(id)];
    token.bytes = tokenizer.piece(id);
    token.control = token.bytes.empty();
    token.ends = tokenizer.ends_generation(id);
    if (token.control) token.bytes = tokenizer.piece(id, true);
  }
  return std::make_shared<const GrammarVocabulary>(std::move(tokens),
                                                   [&](std::string_view text) { return tokenizer.encode(text, false, false); });
}

}  // namespace yamata
