#include "src/grammar/grammar_vocabulary.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

namespace yamata {
namespace {

constexpr std::size_t kLongestToken = 1 << 15;  // bytes

std::size_t common_bytes(std::string_view a, std::string_view b) {
  const std::size_t most = std::min(a.size(), b.size());
  std::size_t n = 0;
  while (n < most && a[n] == b[n]) ++n;
  return n;
}

}  // namespace

GrammarVocabulary::GrammarVocabulary(std::vector<GrammarToken> tokens, Encode encode)
    : tokens_(std::move(tokens)), encode_(std::move(encode)) {
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    const auto id = static_cast<std::int32_t>(i);
    const GrammarToken& token = tokens_[i];
    if (token.ends)
      ends_.push_back(id);
    else if (token.control)
      controls_.push_back(id);
    else if (!token.bytes.empty() && token.bytes.size() < kLongestToken)
      order_.push_back(id);
  }
  const auto bytes = [&](std::int32_t id) -> std::string_view { return token(id).bytes; };
  std::ranges::sort(order_, [&](std::int32_t a, std::int32_t b) { return std::pair(bytes(a), a) < std::pair(bytes(b), b); });
  std::vector<std::uint32_t> open;  // nodes of the bytes of the token before
  std::string_view before;
  const auto close = [&](std::size_t depth) {
    for (; open.size() > depth; open.pop_back()) nodes_[open.back()].end = static_cast<std::uint32_t>(nodes_.size());
  };
  for (std::size_t i = 0; i < order_.size(); ++i) {
    const std::string_view text = bytes(order_[i]);
    if (text == before) continue;
    close(common_bytes(before, text));
    while (open.size() < text.size()) {
      const auto byte = static_cast<std::uint8_t>(text[open.size()]);
      open.push_back(static_cast<std::uint32_t>(nodes_.size()));
      nodes_.push_back({byte, static_cast<std::uint16_t>(open.size()), 0, static_cast<std::uint32_t>(i)});
    }
    deepest_ = std::max(deepest_, text.size());
    before = text;
  }
  close(0);
  nodes_.push_back({0, 0, 0, static_cast<std::uint32_t>(order_.size())});
}

std::int32_t GrammarVocabulary::longest_prefix(std::string_view text) const {
  std::int32_t found = -1;
  std::size_t i = 0, end = nodes_.size() - 1;
  for (std::size_t depth = 0; depth < text.size(); ++depth) {
    while (i < end && nodes_[i].byte != static_cast<std::uint8_t>(text[depth])) i = nodes_[i].end;
    if (i >= end) break;
    if (!tokens_at(i).empty()) found = tokens_at(i).front();
    end = nodes_[i].end;
    ++i;
  }
  return found;
}

}  // namespace yamata
