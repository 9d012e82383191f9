#pragma once
// Warnings about vocabularies and about texts that were encoded with them.
#include <memory>
#include <string>
#include <vector>

#include "src/tokenizer/tokenizer.hpp"

namespace yamata {

/// Tokenizer::load, and a warning for everything that is doubtful about the vocabulary.
std::unique_ptr<Tokenizer> load_tokenizer(const gguf::File& file, const std::string& pre = "");

/// Warns if a prompt begins with two BOS tokens.
void warn_of_doubled_bos(const Tokenizer& tokenizer, const std::vector<TokenId>& ids);

}  // namespace yamata
