#pragma once
// SentencePiece vocabularies (`tokenizer.ggml.model` = llama).
#include <array>
#include <string_view>
#include <unordered_map>

#include "src/tokenizer/tokenizer.hpp"

namespace yamata {

/// Repeatedly merges the pair of neighbours whose union has the best score, until no union is in the vocabulary. The rest is written in
/// byte tokens.
class SentencePiece : public Tokenizer {
 public:
  explicit SentencePiece(const gguf::File& file);
  std::string piece(TokenId id, bool special) const override;

 protected:
  void encode_plain(std::string_view text, bool first, std::vector<TokenId>& out, ProgressCallback& progress) const override;

 private:
  void load_bytes();
  void encode_word(std::string_view word, std::vector<TokenId>& out, ProgressCallback& progress) const;
  void append_tokens(std::string_view text, std::vector<TokenId>& out) const;

  std::vector<float> scores_;
  std::unordered_map<std::string_view, TokenId> ids_;  // views into texts_
  std::array<TokenId, 256> byte_ids_{};                // -1: no such token
  std::size_t longest_bytes_ = 0;
  bool space_inside_ = false;  // a token holds a space after another character
  bool add_space_prefix_ = true;
};

}  // namespace yamata
