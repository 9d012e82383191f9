#include "src/tokenizer/sentencepiece.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "node/error.hpp"
#include "src/tokenizer/escaped_spaces.hpp"
#include "src/tokenizer/merge_queue.hpp"
#include "src/tokenizer/utf8.hpp"

namespace yamata {

namespace {

/// A piece of the text in a linked list, with indices as links; after a merge, the right one is empty.
struct Symbol {
  std::size_t begin, bytes;
  std::ptrdiff_t previous, next;  // -1: none
};

/// A possible merge; outdated if the two symbols together are not `bytes` long any more.
struct Merge {
  float score;
  std::ptrdiff_t left, right;
  std::size_t bytes;
  float priority() const { return -score; }  // the lowest is the best
  bool operator<(const Merge& other) const { return score < other.score || (score == other.score && left > other.left); }
};

/// The end of the word that starts at `begin`: before the next space that follows another character.
std::size_t word_end(std::string_view text, std::size_t begin) {
  std::size_t at = begin;
  while (text.substr(at, kEscapedSpace.size()) == kEscapedSpace) at += kEscapedSpace.size();
  return std::min(text.find(kEscapedSpace, at), text.size());
}

}  // namespace

SentencePiece::SentencePiece(const gguf::File& file) {
  bos_ = 1, eos_ = 2, unknown_ = 0;  // SentencePiece's defaults, if the file has none
  add_bos_ = true;
  load_common(file);
  add_space_prefix_ = file.boolean("tokenizer.ggml.add_space_prefix").value_or(true);
  const std::vector<double> scores = file.numbers("tokenizer.ggml.scores");
  if (scores.size() != texts_.size()) {
    throw ModelError(fmt::format("{}: tokenizer.ggml.scores has {} entries, but the vocabulary has {} tokens; convert the model again",
                                 file.name(), scores.size(), texts_.size()));
  }
  if (std::any_of(scores.begin(), scores.end(), [](double score) { return std::isnan(score); })) {
    throw ModelError(fmt::format("{}: tokenizer.ggml.scores holds a value that is no number; convert the model again", file.name()));
  }
  scores_.assign(scores.begin(), scores.end());
  ids_.reserve(texts_.size());
  for (std::size_t i = 0; i < texts_.size(); ++i) {
    const std::string_view text = texts_[i];
    ids_[text] = static_cast<TokenId>(i);
    longest_bytes_ = std::max(longest_bytes_, text.size());
    space_inside_ = space_inside_ || (!text.empty() && word_end(text, 0) != text.size());
  }
  load_bytes();
  if (unknown_ >= 0 || std::ranges::all_of(byte_ids_, [](TokenId id) { return id >= 0; })) find_longest();
}

void SentencePiece::load_bytes() {
  for (std::size_t byte = 0; byte < byte_ids_.size(); ++byte) {
    const auto found = ids_.find(fmt::format("<0x{:02X}>", byte));
    byte_ids_[byte] = found == ids_.end() ? -1 : found->second;
  }
}

void SentencePiece::encode_plain(std::string_view text, bool first, std::vector<TokenId>& out, ProgressCallback& progress) const {
  const std::string escaped = (first && add_space_prefix_ ? std::string(kEscapedSpace) : "") + escape_spaces(text);
  if (space_inside_) return encode_word(escaped, out, progress);
  // No token extends across the start of a word, so words are merged independently: the ids are the same, and the queues much shorter.
  const std::string_view all = escaped;
  for (std::size_t begin = 0; begin < all.size();) {
    const std::size_t end = word_end(all, begin);
    encode_word(all.substr(begin, end - begin), out, progress);
    begin = end;
  }
}

void SentencePiece::encode_word(std::string_view word, std::vector<TokenId>& out, ProgressCallback& progress) const {
  progress();
  std::vector<Symbol> symbols;
  for (std::size_t at = 0; at < word.size();) {
    const std::size_t bytes = std::max<std::size_t>(1, utf8_length(word, at));
    const auto index = static_cast<std::ptrdiff_t>(symbols.size());
    symbols.push_back({at, bytes, index - 1, index + 1});
    at += bytes;
  }
  if (!symbols.empty()) symbols.back().next = -1;
  const auto symbol = [&](std::ptrdiff_t i) -> Symbol& { return symbols[static_cast<std::size_t>(i)]; };

  MergeQueue<Merge> merges(symbols.size());
  const auto propose = [&](std::ptrdiff_t left, std::ptrdiff_t right) {
    if (left < 0 || right < 0) return;
    const std::size_t bytes = symbol(left).bytes + symbol(right).bytes;
    if (bytes > longest_bytes_) return;
    const auto found = ids_.find(word.substr(symbol(left).begin, bytes));
    if (found != ids_.end()) merges.push({scores_[static_cast<std::size_t>(found->second)], left, right, bytes});
  };
  for (std::size_t i = 1; i < symbols.size(); ++i) propose(static_cast<std::ptrdiff_t>(i) - 1, static_cast<std::ptrdiff_t>(i));
  while (!merges.empty()) {
    const Merge merge = merges.pop();
    progress();
    Symbol& left = symbol(merge.left);
    Symbol& right = symbol(merge.right);
    if (left.bytes == 0 || right.bytes == 0 || left.bytes + right.bytes != merge.bytes) continue;
    left.bytes = merge.bytes;
    right.bytes = 0;
    left.next = right.next;
    if (left.next >= 0) symbol(left.next).previous = merge.left;
    propose(left.previous, merge.left);
    propose(merge.left, left.next);
  }
  for (const Symbol& left : symbols) {
    if (left.bytes > 0) append_tokens(word.substr(left.begin, left.bytes), out);
  }
}

/// Appends the text's token, or else its bytes' tokens.
void SentencePiece::append_tokens(std::string_view text, std::vector<TokenId>& out) const {
  const auto found = ids_.find(text);
  if (found != ids_.end()) {
    out.push_back(found->second);
    return;
  }
  for (const char c : text) {
    const TokenId id = byte_ids_[static_cast<std::uint8_t>(c)];
    if (id >= 0) {
      out.push_back(id);
    } else if (unknown_ >= 0) {
      out.push_back(unknown_);
      return;
    }
  }
}

std::string SentencePiece::piece(TokenId id, bool special) const { return space_escaped_piece(id, special); }

}  // namespace yamata
