#pragma once
// Converts text to token ids and back with the vocabulary of a GGUF file.
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "src/gguf/gguf.hpp"
#include "src/tokenizer/progress_callback.hpp"
#include "src/tokenizer/special_tokens.hpp"

namespace yamata {

using TokenId = std::int32_t;

class Tokenizer {
 public:
  /// Builds the tokenizer given by `tokenizer.ggml.model` (llama: SentencePiece; gpt2: byte-level BPE; gemma4: BPE of characters). `pre`
  /// forces a pre-tokenizer by name. Throws ModelError for an unsupported model or pre-tokenizer, with the supported ones.
  static std::unique_ptr<Tokenizer> load(const gguf::File& file, const std::string& pre = "");
  virtual ~Tokenizer() = default;

  /// `add_special`: adds BOS and EOS as the file says. `parse_special`: texts of control tokens become their ids. Any bytes are accepted,
  /// including invalid UTF-8. `watch` is called now and then, and may throw to give up.
  std::vector<TokenId> encode(std::string_view text, bool add_special, bool parse_special, const std::function<void()>& watch = {}) const;
  /// A text of so many bytes has at least so many tokens, whatever it is.
  std::size_t fewest_tokens(std::size_t bytes) const { return longest_bytes_ == 0 ? 0 : (bytes + longest_bytes_ - 1) / longest_bytes_; }
  /// The bytes of a token; empty for control tokens unless `special`.
  virtual std::string piece(TokenId id, bool special = false) const = 0;

  std::int32_t size() const { return static_cast<std::int32_t>(texts_.size()); }
  /// The token's text in the vocabulary.
  const std::string& text(TokenId id) const { return texts_[static_cast<std::size_t>(id)]; }
  TokenId bos() const { return bos_; }  ///< -1 if there is none
  TokenId eos() const { return eos_; }
  /// What is doubtful about the vocabulary, a line each.
  const std::vector<std::string>& warnings() const { return warnings_; }
  /// Whether ids begin with two BOS: the one that was added, and one in the text.
  bool doubles_bos(const std::vector<TokenId>& ids) const { return add_bos_ && ids.size() >= 2 && ids[0] == bos_ && ids[1] == bos_; }
  bool adds_bos() const { return add_bos_; }
  /// A fill-in-the-middle token; -1 if there is none.
  TokenId fim(FimToken which) const { return fim_[static_cast<std::size_t>(which)]; }
  /// Whether it is EOS, EOT, EOM, a token whose text marks the end of a turn, or one between files (FIM).
  bool ends_generation(TokenId id) const { return ends_[static_cast<std::size_t>(id)]; }

 protected:
  /// Ids of text without special tokens. `first`: no text precedes it.
  virtual void encode_plain(std::string_view text, bool first, std::vector<TokenId>& out, ProgressCallback& progress) const = 0;
  void load_common(const gguf::File& file);
  void load_kinds(const gguf::File& file);
  void load_ends(const gguf::File& file);
  /// If every character becomes a token, though perhaps an unknown one: finds what fewest_tokens needs.
  void find_longest();
  /// The piece of a token in a vocabulary with escaped spaces.
  std::string space_escaped_piece(TokenId id, bool special) const;

  enum class Kind : std::uint8_t { kNormal = 1, kUnknown, kControl, kUserDefined, kUnused, kByte };
  std::vector<std::string> warnings_;
  std::vector<std::string> texts_;
  std::vector<Kind> kinds_;
  std::vector<bool> ends_;
  std::vector<TokenId> special_;  // control and user-defined tokens, longest text first
  std::map<TokenId, SwallowedSpaces> swallowed_;
  TokenId bos_ = -1, eos_ = -1, unknown_ = -1;
  std::array<TokenId, kFimTokens> fim_{};
  bool add_bos_ = false, add_eos_ = false;

 private:
  std::size_t longest_bytes_ = 0;  // of a text that one token may stand for; 0: any
};

/// Converts a stream of ids to text, and never returns a part of a UTF-8 character.
class StreamDecoder {
 public:
  /// `special`: control tokens come as their text, else as nothing.
  explicit StreamDecoder(const Tokenizer& tokenizer, bool special = false) : tokenizer_(tokenizer), special_(special) {}
  std::string push(TokenId id);
  /// The rest at the end: bytes of an incomplete character.
  std::string finish();

 private:
  const Tokenizer& tokenizer_;
  const bool special_;
  std::string pending_;
};

}  // namespace yamata
