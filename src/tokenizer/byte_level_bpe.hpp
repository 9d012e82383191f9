#pragma once
// BPE vocabularies: byte-level ones (`tokenizer.ggml.model` = gpt2), and such as Gemma 4's (gemma4).
#include <array>
#include <memory>
#include <string_view>
#include <unordered_map>

#include "src/tokenizer/pre_tokenizer.hpp"
#include "src/tokenizer/tokenizer.hpp"

namespace yamata {

/// Splits text by the pre-tokenizer, and merges neighbours inside each piece, lowest rank first. Vocabularies represent every byte by a
/// printable character, except for raw ones such as Gemma 4's: these consist of characters, with U+2581 for a space, and have byte tokens
/// for all others.
class ByteLevelBpe : public Tokenizer {
 public:
  ByteLevelBpe(const gguf::File& file, const std::string& pre);
  std::string piece(TokenId id, bool special) const override;

 protected:
  void encode_plain(std::string_view text, bool first, std::vector<TokenId>& out, ProgressCallback& progress) const override;

 private:
  /// The number of a text in the merges: tokens have their ids, and intermediate texts have the numbers after them.
  using Unit = std::uint32_t;
  struct Merged {
    std::uint32_t rank;
    Unit unit;
  };
  std::string pre_tokenizer_name(const gguf::File& file, const std::string& pre);
  void load_units();
  void load_merges(const gguf::File& file);
  Unit unit(std::string_view text);
  const Merged* find_merge(Unit left, Unit right) const;
  template <class Add>
  void add_first_units(std::string_view piece, const Add& add) const;
  TokenId whole_token(std::string_view piece) const;
  void encode_piece(std::string_view piece, std::vector<TokenId>& out, ProgressCallback& progress) const;
  void append_tokens(Unit unit, std::vector<TokenId>& out) const;
  void append_unknown(std::vector<TokenId>& out) const;

  bool raw_ = false;
  std::unique_ptr<PreTokenizer> pre_tokenizer_;
  std::unordered_map<std::string, Unit> units_;       // by text as the vocabulary writes it
  std::vector<std::string> intermediates_;            // texts of the units that are not tokens
  std::unordered_map<std::uint64_t, Merged> merges_;  // by left unit * 2^32 + right unit
  std::array<Unit, 256> byte_units_{};
  std::array<std::string, 256> byte_texts_;
  std::unordered_map<std::string_view, char> bytes_;  // the inverse, views into byte_texts_
};

}  // namespace yamata
