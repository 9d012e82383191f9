#include "src/tokenizer/special_tokens.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "node/error.hpp"

namespace yamata {
namespace {

// Files often have a wrong type for these, so only the text counts.
constexpr std::string_view kEndTexts[] = {"<|eot_id|>",
                                          "<|im_end|>",
                                          "<|end|>",
                                          "<end_of_turn>",
                                          "<|endoftext|>",
                                          "<|eom_id|>",
                                          "<|return|>",
                                          "<|call|>",
                                          "<|calls|>",
                                          "<|flush|>",
                                          "<end_of_utterance>",
                                          "<|end_of_text|>",
                                          "_<EOT>",
                                          "<turn|>",           // Gemma 4
                                          "<|tool_response>",  // Gemma 4
                                          "[e~[",              // MiniMax M2
                                          "<\xef\xbd\x9c"
                                          "end\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c>"};
// These are also HTML tags and the like, so ordinary tokens in some vocabularies: they end a turn only as control tokens.
constexpr std::string_view kEndOfSequence[] = {"</s>", "<eos>", "<EOT>", "[EOT]", "[EOS]"};

/// The metadata key of a token, and its usual texts in vocabularies.
struct FimRow {
  const char* key;
  const char* old_key;  ///< null: it has none
  std::array<std::string_view, 8> texts;
};
#define YAMATA_BAR "\xef\xbd\x9c"    // DeepSeek's vertical bar and blank
#define YAMATA_BLANK "\xe2\x96\x81"  // also SentencePiece's
constexpr FimRow kFimRows[kFimTokens] = {
    {"fim_pre_token_id",
     "prefix_token_id",
     {"<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>", "<" YAMATA_BAR "fim" YAMATA_BLANK "begin" YAMATA_BAR ">", "<PRE>",
      YAMATA_BLANK "<PRE>", "<|code_prefix|>", "<|prefix|>"}},
    {"fim_suf_token_id",
     "suffix_token_id",
     {"<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>", "<" YAMATA_BAR "fim" YAMATA_BLANK "hole" YAMATA_BAR ">", "<SUF>",
      YAMATA_BLANK "<SUF>", "<|code_suffix|>", "<|suffix|>"}},
    {"fim_mid_token_id",
     "middle_token_id",
     {"<|fim_middle|>", "<fim-middle>", "<fim_middle>", "<" YAMATA_BAR "fim" YAMATA_BLANK "end" YAMATA_BAR ">", "<MID>",
      YAMATA_BLANK "<MID>", "<|code_middle|>", "<|middle|>"}},
    {"fim_pad_token_id", nullptr, {"<|fim_pad|>", "<fim-pad>", "<fim_pad>"}},
    {"fim_rep_token_id", nullptr, {"<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"}},
    {"fim_sep_token_id", nullptr, {"<|file_sep|>"}},
};
#undef YAMATA_BAR
#undef YAMATA_BLANK

template <class Texts>
bool contains(const Texts& texts, std::string_view text) {
  return std::ranges::find(texts, text) != std::end(texts);
}

}  // namespace

bool text_ends_turn(std::string_view text) { return contains(kEndTexts, text); }
bool control_text_ends_turn(std::string_view text) { return contains(kEndOfSequence, text); }

std::int32_t token_of_key(const gguf::File& file, const std::string& key, std::size_t vocabulary, std::int32_t absent,
                          std::vector<std::string>& warnings) {
  const std::optional<std::int64_t> id = file.integer(key);
  if (!id) return absent;
  if (*id < 0 || static_cast<std::uint64_t>(*id) >= vocabulary) {
    warnings.push_back(fmt::format("{}: {} is {}, but the vocabulary has {} tokens; {}", file.name(), key, *id, vocabulary,
                                   absent < 0 ? "it is ignored" : fmt::format("{} is used", absent)));
    return absent;
  }
  return static_cast<std::int32_t>(*id);
}

std::array<std::int32_t, kFimTokens> find_fim_tokens(const gguf::File& file, std::span<const std::string> texts,
                                                     std::vector<std::string>& warnings) {
  std::array<std::int32_t, kFimTokens> found;
  for (std::size_t i = 0; i < kFimTokens; ++i) {
    const FimRow& row = kFimRows[i];
    found[i] = -1;
    for (const char* key : {row.old_key, row.key}) {
      if (key != nullptr) found[i] = token_of_key(file, std::string("tokenizer.ggml.") + key, texts.size(), found[i], warnings);
    }
  }
  for (std::size_t id = 0; id < texts.size(); ++id) {
    if (texts[id].size() < 5) continue;
    for (std::size_t i = 0; i < kFimTokens; ++i) {
      if (found[i] < 0 && contains(kFimRows[i].texts, texts[id])) found[i] = static_cast<std::int32_t>(id);
    }
  }
  return found;
}

SwallowedSpaces swallowed_spaces(const gguf::File& file, std::string_view text) {
  constexpr std::string_view kKeep[] = {"<unk>", "<s>", "<|endoftext|>"};  // of Phi-3
  const auto value = [&](const char* key) { return file.string(key).value_or(""); };
  const std::string pre = value("tokenizer.ggml.pre"), family = value("general.architecture");
  std::string name = value("general.name");
  std::ranges::transform(name, name.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  const auto has_any = [](const std::string& in, std::initializer_list<const char*> parts) {
    return std::ranges::any_of(parts, [&](const char* part) { return in.find(part) != std::string::npos; });
  };
  if (has_any(pre, {"jina-v2-de", "jina-v2-es", "jina-v2-code"}) || has_any(family, {"nomic-bert-moe", "jina-bert-v3"}))
    return {.before = text == "<mask>"};
  if (has_any(name, {"phi-3", "phi3"})) return {.after = !contains(kKeep, text)};
  if (has_any(name, {"modern-bert"})) return {.before = text == "[MASK]"};
  return {};
}

}  // namespace yamata
