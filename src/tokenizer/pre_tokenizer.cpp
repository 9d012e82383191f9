#include "src/tokenizer/pre_tokenizer.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <new>
#include <stdexcept>

#include "src/tokenizer/utf8.hpp"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace yamata {

namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD
// PCRE2 counts U+180E as white space, as older versions of Unicode did. It gets another format character, which no pattern names.
constexpr std::string_view kVowelSeparator = "\xE1\xA0\x8E", kFormatCharacter = "\xE2\x80\x8B";

struct Freed {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};

/// Valid UTF-8 text, and the position of each of its bytes in the original (empty: they are equal).
struct ValidText {
  std::string text;
  std::vector<std::size_t> origin;
};

/// PCRE2 only accepts valid UTF-8: each invalid byte is replaced by a symbol. So is the character that it takes for white space.
ValidText make_valid(std::string_view text) {
  ValidText valid;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_length(text, at);
    if (length == 0) {
      valid.text += kReplacement;
      valid.origin.insert(valid.origin.end(), kReplacement.size(), at);
      ++at;
      continue;
    }
    const std::string_view character = text.substr(at, length);
    valid.text += character == kVowelSeparator ? kFormatCharacter : character;
    for (std::size_t i = 0; i < length; ++i) valid.origin.push_back(at++);
  }
  valid.origin.push_back(text.size());
  return valid;
}

bool is_valid(std::string_view text) {
  if (text.find(kVowelSeparator) != std::string_view::npos) return false;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_length(text, at);
    if (length == 0) return false;
    at += length;
  }
  return true;
}

/// Where [begin, end) of a valid text is cut so that all parts except the first have three characters; `begin` if that one has three, too.
std::vector<std::size_t> threes(std::string_view text, std::size_t begin, std::size_t end) {
  std::vector<std::size_t> cuts;
  std::size_t characters = 0;
  for (std::size_t at = end; at-- > begin;) {
    if (!continues_utf8(text.substr(at, 1)) && ++characters % 3 == 0) cuts.push_back(at);
  }
  std::reverse(cuts.begin(), cuts.end());
  return cuts;
}

}  // namespace

struct PreTokenizer::Pattern {
  explicit Pattern(const Split& split);
  void split(std::string_view piece, std::vector<std::string_view>& out, ProgressCallback& progress) const;

  std::unique_ptr<pcre2_code, Freed> code;
  Split::Cut cut;
};

PreTokenizer::Pattern::Pattern(const Split& split) : cut(split.cut) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(split.pattern), PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP | PCRE2_DOLLAR_ENDONLY,
                           &error, &offset, nullptr));
  if (!code) throw std::logic_error("a pre-tokenizer pattern does not compile");
  // Without JIT the result is the same, only slower.
  pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);
}

/// Appends the parts of `piece` (valid UTF-8): matches, and the text between matches, cut as its Split says.
void PreTokenizer::Pattern::split(std::string_view piece, std::vector<std::string_view>& out, ProgressCallback& progress) const {
  const std::unique_ptr<pcre2_match_data, Freed> data(pcre2_match_data_create_from_pattern(code.get(), nullptr));
  const std::unique_ptr<pcre2_match_context, Freed> context(pcre2_match_context_create(nullptr));
  if (!data || !context) throw std::bad_alloc();
  pcre2_set_match_limit(context.get(), std::numeric_limits<std::uint32_t>::max());  // no limit: long sequences of spaces are ordinary input
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(piece.data());
  std::size_t done = 0, from = 0;
  const auto end_piece = [&](std::size_t at) {
    if (at > done) out.push_back(piece.substr(done, at - done));
    done = at;
  };
  while (from < piece.size()) {
    const auto match = [&](std::uint32_t options) {
      return pcre2_match(code.get(), subject, piece.size(), from, PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY | options, data.get(), context.get());
    };
    int found = match(0);
    if (found == PCRE2_ERROR_JIT_STACKLIMIT) found = match(PCRE2_NO_JIT);  // a long word, in which a group is repeated
    progress();
    if (found == PCRE2_ERROR_NOMATCH) break;
    if (found < 0) throw std::bad_alloc();
    const PCRE2_SIZE* range = pcre2_get_ovector_pointer(data.get());
    if (cut != Split::Cut::kInMatchesByThrees) end_piece(range[0]);
    if (cut != Split::Cut::kMatches) {
      for (const std::size_t at : threes(piece, range[0], range[1])) end_piece(at);
    }
    if (cut != Split::Cut::kInMatchesByThrees) end_piece(range[1]);
    from = range[1];
  }
  end_piece(piece.size());
}

std::unique_ptr<PreTokenizer> PreTokenizer::find(const std::string& name) {
  for (const PreTokenizerRow& row : pre_tokenizer_table()) {
    if (std::ranges::find(row.names, name) != row.names.end()) return std::unique_ptr<PreTokenizer>(new PreTokenizer(row));
  }
  return nullptr;
}

std::string PreTokenizer::names() {
  std::string all;
  for (const PreTokenizerRow& row : pre_tokenizer_table()) {
    for (const char* name : row.names) all += (all.empty() ? "" : ", ") + std::string(name);
  }
  return all;
}

PreTokenizer::PreTokenizer(const PreTokenizerRow& row) : row_(row) {
  for (const Split& split : row.splits) patterns_.emplace_back(split);
}

PreTokenizer::~PreTokenizer() = default;

std::vector<std::string_view> PreTokenizer::split(std::string_view text, ProgressCallback& progress) const {
  ValidText valid;
  if (!is_valid(text)) valid = make_valid(text);
  const bool same = valid.origin.empty();
  const std::string_view subject = same ? text : std::string_view(valid.text);

  std::vector<std::string_view> pieces;
  if (!subject.empty()) pieces.push_back(subject);
  for (const Pattern& pattern : patterns_) {
    std::vector<std::string_view> finer;
    finer.reserve(pieces.size());
    for (const std::string_view piece : pieces) pattern.split(piece, finer, progress);
    pieces = std::move(finer);
  }
  if (same) return pieces;
  for (std::string_view& piece : pieces) {
    const std::size_t begin = static_cast<std::size_t>(piece.data() - subject.data());
    const std::size_t from = valid.origin[begin], to = valid.origin[begin + piece.size()];
    piece = text.substr(from, to - from);
  }
  return pieces;
}

}  // namespace yamata
