#include "launch/program/output/tokenizer_warnings.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "launch/program/output/warnings.hpp"

namespace yamata {

std::unique_ptr<Tokenizer> load_tokenizer(const gguf::File& file, const std::string& pre) {
  auto tokenizer = Tokenizer::load(file, pre);
  std::ranges::for_each(tokenizer->warnings(), warn);
  return tokenizer;
}

void warn_of_doubled_bos(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  if (tokenizer.doubles_bos(ids))
    warn(fmt::format("the text begins with {}, and the same token is added before it; leave it out of the text", tokenizer.text(ids[0])));
}

}  // namespace yamata
