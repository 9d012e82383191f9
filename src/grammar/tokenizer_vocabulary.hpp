#pragma once
// The vocabulary of a tokenizer, for grammars.
#include <memory>

#include "src/grammar/grammar_vocabulary.hpp"
#include "src/tokenizer/tokenizer.hpp"

namespace yamata {

/// The tokenizer outlives it.
std::shared_ptr<const GrammarVocabulary> grammar_vocabulary(const Tokenizer& tokenizer);

}  // namespace yamata
