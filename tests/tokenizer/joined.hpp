#pragma once
#include <string>
#include <vector>

#include "src/tokenizer/tokenizer.hpp"

namespace yamata::test {

/// The text of these tokens.
inline std::string joined(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  std::string text;
  for (const TokenId id : ids) text += tokenizer.piece(id);
  return text;
}

}  // namespace yamata::test
