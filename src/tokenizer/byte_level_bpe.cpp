#include "src/tokenizer/byte_level_bpe.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "node/error.hpp"
#include "src/tokenizer/escaped_spaces.hpp"
#include "src/tokenizer/merge_queue.hpp"
#include "src/tokenizer/utf8.hpp"

namespace yamata {

namespace {

/// GPT-2's printable character for each byte: the byte itself if it is printable Latin-1, else the next one from U+0100 on.
std::array<std::string, 256> printable_bytes() {
  std::array<std::string, 256> texts;
  std::uint32_t next = 0x100;
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
    const std::uint32_t code = printable ? byte : next++;
    if (code < 0x80) {
      texts[byte] = {static_cast<char>(code)};
    } else {
      texts[byte] = {static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 0x3F))};
    }
  }
  return texts;
}

/// A unit of a linked list, with indices as links.
struct Symbol {
  std::uint32_t unit;
  std::int64_t previous, next;  // -1: none
  bool gone = false;            // merged into the one before
};

/// A possible merge; outdated after one of the two units has changed.
struct Merge {
  std::uint32_t rank, result;
  std::int64_t left, right;
  std::uint32_t left_unit, right_unit;
  std::uint32_t priority() const { return rank; }  // the lowest is the best
  bool operator<(const Merge& other) const { return rank > other.rank || (rank == other.rank && left > other.left); }
};

}  // namespace

ByteLevelBpe::ByteLevelBpe(const gguf::File& file, const std::string& pre) : byte_texts_(printable_bytes()) {
  const std::string name = pre_tokenizer_name(file, pre);
  pre_tokenizer_ = PreTokenizer::find(name);
  if (!pre_tokenizer_) {
    throw ModelError(
        fmt::format("{}: the pre-tokenizer '{}' is not known (known: {}); choose the one the model was trained with by --pre NAME",
                    file.name(), name, PreTokenizer::names()));
  }
  raw_ = pre_tokenizer_->row().raw;
  add_bos_ = pre_tokenizer_->row().adds_bos;
  load_common(file);
  add_bos_ = add_bos_ || pre_tokenizer_->row().forces_bos;
  load_units();
  load_merges(file);
  if (unknown_ >= 0 || std::ranges::all_of(byte_units_, [&](Unit unit) { return unit < texts_.size(); })) find_longest();
}

/// The name in the file, unless `pre` is one; a vocabulary like Gemma 4's has but one.
std::string ByteLevelBpe::pre_tokenizer_name(const gguf::File& file, const std::string& pre) {
  if (!pre.empty()) return pre;
  if (file.string("tokenizer.ggml.model") == "gemma4") return "gemma4";
  const std::optional<std::string> name = file.string("tokenizer.ggml.pre");
  if (name && !name->empty()) return *name;
  warnings_.push_back(fmt::format(
      "{}: tokenizer.ggml.pre is missing, so words are split as in the oldest files; --pre NAME splits them as in training", file.name()));
  return "default";
}

void ByteLevelBpe::load_units() {
  units_.reserve(texts_.size() + 256);
  for (std::size_t i = 0; i < texts_.size(); ++i) units_[texts_[i]] = static_cast<Unit>(i);
  for (std::size_t byte = 0; byte < 256; ++byte) {
    if (raw_) byte_texts_[byte] = fmt::format("<0x{:02X}>", byte);
    byte_units_[byte] = unit(byte_texts_[byte]);
    bytes_[byte_texts_[byte]] = static_cast<char>(byte);
  }
}

void ByteLevelBpe::load_merges(const gguf::File& file) {
  const std::vector<std::string>* merges = file.strings("tokenizer.ggml.merges");
  if (merges == nullptr) {
    throw ModelError(fmt::format("{}: tokenizer.ggml.merges is missing; use a GGUF file that holds its whole vocabulary", file.name()));
  }
  merges_.reserve(merges->size());
  for (std::size_t rank = 0; rank < merges->size(); ++rank) {
    const std::string_view line = (*merges)[rank];
    const std::size_t space = line.find(' ', 1);
    if (space == std::string_view::npos) {
      throw ModelError(fmt::format("{}: tokenizer.ggml.merges[{}] is not two texts; convert the model again", file.name(), rank));
    }
    const Unit left = unit(line.substr(0, space));
    const Unit right = unit(line.substr(space + 1));
    const Unit both = unit(std::string(line.substr(0, space)) + std::string(line.substr(space + 1)));
    merges_.try_emplace(std::uint64_t{left} << 32 | right, Merged{static_cast<std::uint32_t>(rank), both});
  }
}

/// The number of a text; a new text gets the next number.
ByteLevelBpe::Unit ByteLevelBpe::unit(std::string_view text) {
  const auto [at, fresh] = units_.try_emplace(std::string(text), static_cast<Unit>(texts_.size() + intermediates_.size()));
  if (fresh) intermediates_.emplace_back(text);
  return at->second;
}

const ByteLevelBpe::Merged* ByteLevelBpe::find_merge(Unit left, Unit right) const {
  const auto found = merges_.find(std::uint64_t{left} << 32 | right);
  return found == merges_.end() ? nullptr : &found->second;
}

void ByteLevelBpe::encode_plain(std::string_view text, bool, std::vector<TokenId>& out, ProgressCallback& progress) const {
  std::string escaped;
  if (raw_) text = escaped = escape_spaces(text);
  for (const std::string_view piece : pre_tokenizer_->split(text, progress)) encode_piece(piece, out, progress);
}

/// Calls `add` with the units that a piece consists of before any merge: bytes, or in a raw vocabulary those characters that it has.
template <class Add>
void ByteLevelBpe::add_first_units(std::string_view piece, const Add& add) const {
  const auto add_bytes = [&](std::string_view bytes) {
    for (const char c : bytes) add(byte_units_[static_cast<std::uint8_t>(c)]);
  };
  if (!raw_) return add_bytes(piece);
  for (std::size_t at = 0; at < piece.size();) {
    const std::string_view character = piece.substr(at, std::max<std::size_t>(1, utf8_length(piece, at)));
    const auto known = units_.find(std::string(character));
    if (known != units_.end()) {
      add(known->second);
    } else {
      add_bytes(character);
    }
    at += character.size();
  }
}

/// The token of a whole piece, if the pre-tokenizer wants that; otherwise -1.
TokenId ByteLevelBpe::whole_token(std::string_view piece) const {
  const PreTokenizerRow& row = pre_tokenizer_->row();
  if (!row.whole_pieces && !(row.whole_lines && piece.find_first_not_of('\n') == std::string_view::npos)) return -1;
  std::string text;
  if (raw_) {
    text = piece;
  } else {
    for (const char c : piece) text += byte_texts_[static_cast<std::uint8_t>(c)];
  }
  const auto found = units_.find(text);
  return found != units_.end() && found->second < texts_.size() ? static_cast<TokenId>(found->second) : -1;
}

void ByteLevelBpe::encode_piece(std::string_view piece, std::vector<TokenId>& out, ProgressCallback& progress) const {
  progress();
  if (const TokenId whole = whole_token(piece); whole >= 0) return out.push_back(whole);
  std::vector<Symbol> symbols;
  symbols.reserve(piece.size());
  add_first_units(piece, [&](Unit unit) {
    const auto index = static_cast<std::int64_t>(symbols.size());
    symbols.push_back({unit, index - 1, index + 1});
  });
  if (!symbols.empty()) symbols.back().next = -1;
  const auto symbol = [&](std::int64_t i) -> Symbol& { return symbols[static_cast<std::size_t>(i)]; };

  MergeQueue<Merge> merges(symbols.size());
  const auto propose = [&](std::int64_t left, std::int64_t right) {
    if (left < 0 || right < 0) return;
    const Unit left_unit = symbol(left).unit, right_unit = symbol(right).unit;
    const Merged* merged = find_merge(left_unit, right_unit);
    if (merged != nullptr) merges.push({merged->rank, merged->unit, left, right, left_unit, right_unit});
  };
  for (std::size_t i = 1; i < symbols.size(); ++i) propose(static_cast<std::int64_t>(i) - 1, static_cast<std::int64_t>(i));
  while (!merges.empty()) {
    const Merge merge = merges.pop();
    progress();
    Symbol& left = symbol(merge.left);
    Symbol& right = symbol(merge.right);
    if (left.gone || right.gone || left.unit != merge.left_unit || right.unit != merge.right_unit) continue;
    left.unit = merge.result;
    right.gone = true;
    left.next = right.next;
    if (left.next >= 0) symbol(left.next).previous = merge.left;
    propose(left.previous, merge.left);
    propose(merge.left, left.next);
  }
  for (const Symbol& left : symbols) {
    if (!left.gone) append_tokens(left.unit, out);
  }
}

/// Appends the unit's token; if it is not a token, those of its characters.
void ByteLevelBpe::append_tokens(Unit unit, std::vector<TokenId>& out) const {
  if (unit < texts_.size()) {
    out.push_back(static_cast<TokenId>(unit));
    return;
  }
  const std::string_view text = intermediates_[unit - texts_.size()];
  if (raw_ && bytes_.contains(text)) return append_unknown(out);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = std::max<std::size_t>(1, utf8_length(text, at));
    const auto found = units_.find(std::string(text.substr(at, length)));
    if (found != units_.end() && found->second < texts_.size()) {
      out.push_back(static_cast<TokenId>(found->second));
    } else if (raw_) {
      for (const char c : text.substr(at, length)) append_tokens(byte_units_[static_cast<std::uint8_t>(c)], out);
    } else {
      append_unknown(out);
    }
    at += length;
  }
}

void ByteLevelBpe::append_unknown(std::vector<TokenId>& out) const {
  if (unknown_ >= 0) out.push_back(unknown_);
}

std::string ByteLevelBpe::piece(TokenId id, bool special) const {
  if (raw_) return space_escaped_piece(id, special);
  const std::string& text = this->text(id);
  const Kind kind = kinds_[static_cast<std::size_t>(id)];
  if (kind == Kind::kControl || kind == Kind::kUnknown) return special ? text : std::string();
  if (kind == Kind::kUserDefined) return text;
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = std::max<std::size_t>(1, utf8_length(text, at));
    const std::string_view character = std::string_view(text).substr(at, length);
    const auto found = bytes_.find(character);
    if (found == bytes_.end()) {
      out += character;
    } else {
      out += found->second;
    }
    at += length;
  }
  return out;
}

}  // namespace yamata
