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

constexpr const char* kGpt2 = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S))";
constexpr const char* kLlama3 = R"((?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
                                R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// Like kLlama3, but each digit is a piece of its own.
constexpr const char* kQwen2 = R"((?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)"
                               R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// o200k_base of tiktoken: words of capitals and small letters, or of capitals alone, with an ending; digits in groups of three.
constexpr const char* kO200k =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// Cased letters of the Unicode version with which DeepSeek's vocabulary was trained.
constexpr const char* kDeepseekLetters =
    R"(\s?[A-Za-z\x{b5}\x{c0}-\x{d6}\x{d8}-\x{f6}\x{f8}-\x{1ba}\x{1bc}-\x{1bf}\x{1c4}-\x{293}\x{295}-\x{2af}\x{370}-\x{373})"
    R"(\x{376}\x{377}\x{37b}-\x{37d}\x{37f}\x{386}\x{388}-\x{38a}\x{38c}\x{38e}-\x{3a1}\x{3a3}-\x{3f5}\x{3f7}-\x{481})"
    R"(\x{48a}-\x{52f}\x{531}-\x{556}\x{10a0}-\x{10c5}\x{13a0}-\x{13f5}\x{13f8}-\x{13fd}\x{1c90}-\x{1cba}\x{1cbd}-\x{1cbf})"
    R"(\x{1d00}-\x{1d2b}\x{1d6b}-\x{1d77}\x{1d79}-\x{1d9a}\x{1e00}-\x{1f15}\x{1f18}-\x{1f1d}\x{1f20}-\x{1f45})"
    R"(\x{1f48}-\x{1f4d}\x{1f50}-\x{1f57}\x{1f59}\x{1f5b}\x{1f5d}\x{1f5f}-\x{1f7d}\x{1f80}-\x{1fb4}\x{1fb6}-\x{1fbc}\x{1fbe})"
    R"(\x{1fc2}-\x{1fc4}\x{1fc6}-\x{1fcc}\x{1fd0}-\x{1fd3}\x{1fd6}-\x{1fdb}\x{1fe0}-\x{1fec}\x{1ff2}-\x{1ff4}\x{1ff6}-\x{1ffc})"
    R"(\x{2102}\x{2107}\x{210a}-\x{2113}\x{2115}\x{2119}-\x{211d}\x{2124}\x{2126}\x{2128}\x{212a}-\x{212d}\x{212f}-\x{2134})"
    R"(\x{2139}\x{213c}-\x{213f}\x{2145}-\x{2149}\x{214e}\x{2183}\x{2184}\x{2c00}-\x{2c7b}\x{2c7e}-\x{2ce4}\x{2ceb}-\x{2cee})"
    R"(\x{2cf2}\x{2cf3}\x{a640}-\x{a66d}\x{a680}-\x{a69b}\x{a722}-\x{a76f}\x{a771}-\x{a787}\x{a78b}-\x{a78e}\x{ab70}-\x{abbf})"
    R"(\x{fb00}-\x{fb06}\x{fb13}-\x{fb17}\x{ff21}-\x{ff3a}\x{ff41}-\x{ff5a}\x{10400}-\x{1044f}\x{104b0}-\x{104d3})"
    R"(\x{104d8}-\x{104fb}\x{10c80}-\x{10cb2}\x{10cc0}-\x{10cf2}\x{118a0}-\x{118df}\x{1e900}-\x{1e943}]+)";
constexpr const char* kDeepseekSigns = R"(\s?[!-/:-~\x{ff01}-\x{ff0f}\x{ff1a}-\x{ff5e}\x{2018}-\x{201f}\x{3000}-\x{3002}]+)";
constexpr const char* kDeepseekIdeographs = R"([\x{4e00}-\x{9fa5}\x{800}-\x{4e00}\x{ac00}-\x{d7ff}]+)";

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

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

/// PCRE2 only accepts valid UTF-8: each invalid byte is replaced by a symbol.
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
    valid.text += text.substr(at, length);
    for (std::size_t i = 0; i < length; ++i) valid.origin.push_back(at++);
  }
  valid.origin.push_back(text.size());
  return valid;
}

bool is_valid(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_length(text, at);
    if (length == 0) return false;
    at += length;
  }
  return true;
}

}  // namespace

struct PreTokenizer::Description {
  std::vector<const char*> names;
  std::vector<const char*> patterns;  ///< each splits the pieces of the ones before
  bool whole_pieces = false;
  bool adds_bos = false;
};

struct PreTokenizer::Pattern {
  explicit Pattern(const char* pattern);
  void split(std::string_view piece, std::vector<std::string_view>& out, EncodingSteps& steps) const;

  std::unique_ptr<pcre2_code, Freed> code;
};

PreTokenizer::Pattern::Pattern(const char* pattern) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern), PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP | PCRE2_DOLLAR_ENDONLY,
                           &error, &offset, nullptr));
  if (!code) throw std::logic_error("a pre-tokenizer pattern does not compile");
  // Without JIT the result is the same, only slower.
  pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);
}

/// Appends the parts of `piece` (valid UTF-8): matches, and the text between matches.
void PreTokenizer::Pattern::split(std::string_view piece, std::vector<std::string_view>& out, EncodingSteps& steps) const {
  const std::unique_ptr<pcre2_match_data, Freed> data(pcre2_match_data_create_from_pattern(code.get(), nullptr));
  const std::unique_ptr<pcre2_match_context, Freed> context(pcre2_match_context_create(nullptr));
  if (!data || !context) throw std::bad_alloc();
  pcre2_set_match_limit(context.get(), std::numeric_limits<std::uint32_t>::max());  // no limit: long sequences of spaces are ordinary input
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(piece.data());
  std::size_t done = 0;
  while (done < piece.size()) {
    const int found = pcre2_match(code.get(), subject, piece.size(), done, PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY, data.get(), context.get());
    steps();
    if (found < 0) break;
    const PCRE2_SIZE* range = pcre2_get_ovector_pointer(data.get());
    if (range[0] > done) out.push_back(piece.substr(done, range[0] - done));
    out.push_back(piece.substr(range[0], range[1] - range[0]));
    done = range[1];
  }
  if (done < piece.size()) out.push_back(piece.substr(done));
}

const std::vector<PreTokenizer::Description>& PreTokenizer::known() {
  static const std::vector<Description> descriptions = {
      {.names = {"default"}, .patterns = {R"([\p{P}\$\+<=>\^~\|]+)", kGpt2, R"(\p{N}+)", "[0-9][0-9][0-9]"}},
      {.names = {"llama-bpe", "llama3", "llama-v3"}, .patterns = {kLlama3}, .whole_pieces = true, .adds_bos = true},
      {.names = {"dbrx", "smaug-bpe", "chatglm-bpe", "glm4"}, .patterns = {kLlama3}},
      {.names = {"qwen2", "stablelm2", "deepseek-r1-qwen"}, .patterns = {kQwen2}},
      {.names = {"gpt-4o"}, .patterns = {kO200k}},
      {.names = {"falcon"}, .patterns = {R"([\p{P}\$\+<=>\^~\|`]+)", kGpt2, "[0-9][0-9][0-9]"}},
      {.names = {"gpt-2", "phi-2", "olmo", "mpt", "jais"}, .patterns = {kGpt2}},
      {.names = {"deepseek-llm"}, .patterns = {"[\r\n]", kDeepseekLetters, kDeepseekSigns, R"(\s+$)", kDeepseekIdeographs, R"(\p{N}+)"}},
      {.names = {"smollm", "starcoder", "refact", "command-r"}, .patterns = {R"(\p{N})", kGpt2}},
  };
  return descriptions;
}

std::unique_ptr<PreTokenizer> PreTokenizer::find(const std::string& name) {
  for (const Description& description : known()) {
    if (std::find(description.names.begin(), description.names.end(), name) != description.names.end()) {
      return std::unique_ptr<PreTokenizer>(new PreTokenizer(description));
    }
  }
  return nullptr;
}

std::string PreTokenizer::names() {
  std::string all;
  for (const Description& description : known()) {
    for (const char* name : description.names) all += (all.empty() ? "" : ", ") + std::string(name);
  }
  return all;
}

PreTokenizer::PreTokenizer(const Description& description) : description_(description) {
  for (const char* pattern : description.patterns) patterns_.emplace_back(pattern);
}

PreTokenizer::~PreTokenizer() = default;
bool PreTokenizer::whole_pieces() const { return description_.whole_pieces; }
bool PreTokenizer::adds_bos() const { return description_.adds_bos; }

std::vector<std::string_view> PreTokenizer::split(std::string_view text, EncodingSteps& steps) const {
  ValidText valid;
  if (!is_valid(text)) valid = make_valid(text);
  const bool same = valid.origin.empty();
  const std::string_view subject = same ? text : std::string_view(valid.text);

  std::vector<std::string_view> pieces;
  if (!subject.empty()) pieces.push_back(subject);
  for (const Pattern& pattern : patterns_) {
    std::vector<std::string_view> finer;
    finer.reserve(pieces.size());
    for (const std::string_view piece : pieces) pattern.split(piece, finer, steps);
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
