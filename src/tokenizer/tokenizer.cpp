#include "src/tokenizer/tokenizer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <optional>
#include <utility>

#include "node/error.hpp"
#include "src/tokenizer/byte_level_bpe.hpp"
#include "src/tokenizer/escaped_spaces.hpp"
#include "src/tokenizer/sentencepiece.hpp"
#include "src/tokenizer/utf8.hpp"

namespace yamata {

namespace {

// If a vocabulary has both, the first one only ends a part of a turn.
constexpr std::string_view kEndOfPart = "<|end|>", kEndOfTurn = "<|return|>";
// In Gemma 4's vocabulary, which has the first, the second is an HTML tag even if the file says that it is a control token.
constexpr std::string_view kToolResponse = "<|tool_response>", kHtmlTag = "</s>";

/// A part of a text: one special token, or (id -1) text to encode.
struct Fragment {
  std::string_view text;
  TokenId id;
};

constexpr std::string_view kWhiteSpace = " \t\n\v\f\r";

void cut_out(std::vector<Fragment>& fragments, std::string_view special, TokenId id, SwallowedSpaces swallowed) {
  std::vector<Fragment> cut;
  for (const Fragment& fragment : fragments) {
    std::string_view rest = fragment.text;
    if (fragment.id < 0) {
      for (std::size_t at; (at = rest.find(special)) != std::string_view::npos;) {
        std::string_view before = rest.substr(0, at);
        if (swallowed.before) before = before.substr(0, before.find_last_not_of(kWhiteSpace) + 1);
        if (!before.empty()) cut.push_back({before, -1});
        cut.push_back({rest.substr(at, special.size()), id});
        rest.remove_prefix(at + special.size());
        if (swallowed.after) rest.remove_prefix(std::min(rest.find_first_not_of(kWhiteSpace), rest.size()));
      }
    }
    if (!rest.empty()) cut.push_back({rest, fragment.id});
  }
  fragments = std::move(cut);
}

}  // namespace

std::unique_ptr<Tokenizer> Tokenizer::load(const gguf::File& file, const std::string& pre) {
  const std::optional<std::string> model = file.string("tokenizer.ggml.model");
  if (!model) {
    throw ModelError(fmt::format("{}: tokenizer.ggml.model is missing; use a GGUF file that holds its vocabulary", file.name()));
  }
  if (*model == "llama") {
    if (!pre.empty()) {
      throw ModelError(
          fmt::format("{}: the vocabulary is SentencePiece, which has no pre-tokenizer; leave out --pre {}", file.name(), pre));
    }
    return std::make_unique<SentencePiece>(file);
  }
  if (*model == "gpt2" || *model == "gemma4") return std::make_unique<ByteLevelBpe>(file, pre);
  throw ModelError(fmt::format("{}: the tokenizer model '{}' is not known (known: llama, gpt2, gemma4); use a model with one of these",
                               file.name(), *model));
}

void Tokenizer::load_common(const gguf::File& file) {
  const std::vector<std::string>* texts = file.strings("tokenizer.ggml.tokens");
  if (texts == nullptr || texts->empty()) {
    throw ModelError(fmt::format("{}: tokenizer.ggml.tokens is missing or empty; use a GGUF file that holds its vocabulary", file.name()));
  }
  if (texts->size() > static_cast<std::size_t>(std::numeric_limits<TokenId>::max())) {
    throw ModelError(fmt::format("{}: {} tokens are more than ids can number; convert the model again", file.name(), texts->size()));
  }
  texts_ = *texts;
  load_kinds(file);

  const std::size_t size = texts_.size();
  for (TokenId* id : {&bos_, &eos_, &unknown_}) {
    if (*id >= static_cast<TokenId>(size)) *id = -1;  // a default id that is too large for this vocabulary
  }
  bos_ = token_of_key(file, "tokenizer.ggml.bos_token_id", size, bos_, warnings_);
  eos_ = token_of_key(file, "tokenizer.ggml.eos_token_id", size, eos_, warnings_);
  unknown_ = token_of_key(file, "tokenizer.ggml.unknown_token_id", size, unknown_, warnings_);
  add_bos_ = file.boolean("tokenizer.ggml.add_bos_token").value_or(add_bos_);
  add_eos_ = file.boolean("tokenizer.ggml.add_eos_token").value_or(add_eos_);
  load_ends(file);

  for (std::size_t i = 0; i < size; ++i) {
    const bool special = kinds_[i] == Kind::kControl || kinds_[i] == Kind::kUserDefined || kinds_[i] == Kind::kUnknown;
    if (special && !texts_[i].empty()) special_.push_back(static_cast<TokenId>(i));
  }
  std::stable_sort(special_.begin(), special_.end(), [&](TokenId a, TokenId b) { return text(a).size() > text(b).size(); });
  for (const TokenId id : special_) {
    const SwallowedSpaces spaces = swallowed_spaces(file, text(id));
    if (spaces.before || spaces.after) swallowed_[id] = spaces;
  }
}

/// Token types, as far as the file has them.
void Tokenizer::load_kinds(const gguf::File& file) {
  const std::size_t size = texts_.size();
  const std::vector<double> kinds = file.numbers("tokenizer.ggml.token_type");
  if (!kinds.empty() && kinds.size() != size) {
    throw ModelError(fmt::format("{}: tokenizer.ggml.token_type has {} entries, but the vocabulary has {} tokens; convert the model again",
                                 file.name(), kinds.size(), size));
  }
  kinds_.assign(size, Kind::kNormal);
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    if (kinds[i] >= 2 && kinds[i] <= 6) kinds_[i] = static_cast<Kind>(static_cast<std::uint8_t>(kinds[i]));
  }
}

/// The tokens that end generation, and those for FIM.
void Tokenizer::load_ends(const gguf::File& file) {
  const std::size_t size = texts_.size();
  ends_.assign(size, false);
  for (std::size_t i = 0; i < size; ++i) {
    if (text_ends_turn(texts_[i])) {
      kinds_[i] = Kind::kControl;
      ends_[i] = true;
    }
    if (kinds_[i] == Kind::kControl && control_text_ends_turn(texts_[i])) ends_[i] = true;
  }
  if (std::ranges::find(texts_, kToolResponse) != texts_.end()) {
    for (std::size_t i = 0; i < size; ++i) {
      if (texts_[i] == kHtmlTag) kinds_[i] = Kind::kNormal, ends_[i] = false;
    }
  }
  const auto part = std::ranges::find(texts_, kEndOfPart), turn = std::ranges::find(texts_, kEndOfTurn);
  if (part != texts_.end() && turn != texts_.end()) ends_[static_cast<std::size_t>(part - texts_.begin())] = false;
  for (const char* key : {"tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"}) {
    const TokenId id = token_of_key(file, key, size, -1, warnings_);
    if (id >= 0) ends_[static_cast<std::size_t>(id)] = true;
  }
  if (eos_ >= 0) ends_[static_cast<std::size_t>(eos_)] = true;
  fim_ = find_fim_tokens(file, texts_, warnings_);
  for (const FimToken between : {FimToken::kPad, FimToken::kRepository, FimToken::kSeparator}) {
    if (fim(between) >= 0) ends_[static_cast<std::size_t>(fim(between))] = true;
  }
}

std::string Tokenizer::space_escaped_piece(TokenId id, bool special) const {
  const std::string& text = this->text(id);
  const Kind kind = kinds_[static_cast<std::size_t>(id)];
  if (kind == Kind::kControl || kind == Kind::kUnknown) return special ? text : std::string();
  if (kind == Kind::kUserDefined) return text;
  if (kind == Kind::kByte && text.size() == 6) {
    const unsigned long byte = std::strtoul(text.c_str() + 3, nullptr, 16);
    return std::string(1, static_cast<char>(byte));
  }
  return unescape_spaces(text);
}

void Tokenizer::find_longest() {
  if (!swallowed_.empty()) return;       // white space may become no token
  constexpr std::size_t kCharacter = 4;  // an unknown token stands for one
  longest_bytes_ = std::max(kCharacter, std::ranges::max(texts_, {}, &std::string::size).size());
}

std::vector<TokenId> Tokenizer::encode(std::string_view text, bool add_special, bool parse_special,
                                       const std::function<void()>& watch) const {
  ProgressCallback progress(watch);
  std::vector<Fragment> fragments;
  if (!text.empty()) fragments.push_back({text, -1});
  for (const TokenId id : special_) {
    if (!parse_special && kinds_[static_cast<std::size_t>(id)] != Kind::kUserDefined) continue;
    const std::string& special = this->text(id);
    if (text.find(special) != std::string_view::npos) {
      const auto found = swallowed_.find(id);
      cut_out(fragments, special, id, found == swallowed_.end() ? SwallowedSpaces{} : found->second);
    }
    progress.now();
  }

  std::vector<TokenId> ids;
  if (add_special && add_bos_ && bos_ >= 0) ids.push_back(bos_);
  bool first = true;
  for (const Fragment& fragment : fragments) {
    const bool plain = fragment.id < 0;
    if (plain) {
      encode_plain(fragment.text, first, ids, progress);
    } else {
      ids.push_back(fragment.id);
    }
    first = !plain;  // the text after a special token is a new start
  }
  if (add_special && add_eos_ && eos_ >= 0) ids.push_back(eos_);
  return ids;
}

std::string StreamDecoder::push(TokenId id) {
  pending_ += tokenizer_.piece(id, special_);
  // Only an incomplete character is held back: its lead byte is one of the last three bytes.
  std::size_t ready = pending_.size();
  for (std::size_t back = 1; back <= std::min<std::size_t>(3, pending_.size()); ++back) {
    const auto byte = static_cast<std::uint8_t>(pending_[pending_.size() - back]);
    if ((byte & 0xC0) == 0x80) continue;
    if (utf8_lead_length(byte) > back) ready -= back;
    break;
  }
  std::string text = pending_.substr(0, ready);
  pending_.erase(0, ready);
  return text;
}

std::string StreamDecoder::finish() { return std::exchange(pending_, {}); }

}  // namespace yamata
