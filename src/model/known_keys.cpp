#include "src/model/known_keys.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "node/error.hpp"

namespace yamata {
namespace {

using enum KnownKey::Use;

constexpr KnownKey kFamilyKeys[] = {
    {"vocab_size", kHarmless, "the embedding has as many rows"},
    {"tensor_data_layout", kHarmless, "an order of rows that older converters undid"},
    {"pooling_type", kHarmless, "for vectors of whole texts, not for tokens"},
    {"rope.scaling.finetuned", kHarmless, "how the model was trained"},
    {"attention.layer_norm_epsilon", kHarmless, "the family's norms have another key"},
    {"attention.layer_norm_rms_epsilon", kHarmless, "the family's norms have another key"},
    {"rope.dimension_sections", kHarmless, "all positions of a text are equal", "glm4moe"},
    {"attention.sliding_window", kHarmless, "converted files disagree; all tokens are seen, as in llama.cpp", "phi3"},
    {"attention.sliding_window", kHarmless, "converted files disagree; all tokens are seen, as in llama.cpp", "starcoder2"},
    {"n_deepstack_layers", kHarmless, "for images", "qwen3vl"},
    {"n_deepstack_layers", kHarmless, "for images", "qwen3vlmoe"},
    {"vision.", kHarmless, "for images"},
    {"mm.", kHarmless, "for images"},
};

constexpr KnownKey kTokenizerKeys[] = {
    {"tokenizer.chat_template", kRead},
    {"tokenizer.chat_template.", kHarmless, "templates for other uses"},
    {"tokenizer.chat_templates", kHarmless, "names of templates for other uses"},
    {"tokenizer.ggml.model", kRead},
    {"tokenizer.ggml.pre", kRead},
    {"tokenizer.ggml.tokens", kRead},
    {"tokenizer.ggml.token_type", kRead},
    {"tokenizer.ggml.token_type_count", kHarmless, "for pairs of texts"},
    {"tokenizer.ggml.scores", kRead},
    {"tokenizer.ggml.suppress_tokens", kRead},
    {"tokenizer.ggml.merges", kRead},
    {"tokenizer.ggml.added_tokens", kHarmless, "they are among the tokens"},
    {"tokenizer.ggml.bos_token_id", kRead},
    {"tokenizer.ggml.eos_token_id", kRead},
    {"tokenizer.ggml.eot_token_id", kRead},
    {"tokenizer.ggml.eom_token_id", kRead},
    {"tokenizer.ggml.unknown_token_id", kRead},
    {"tokenizer.ggml.fim_pre_token_id", kRead},
    {"tokenizer.ggml.fim_suf_token_id", kRead},
    {"tokenizer.ggml.fim_mid_token_id", kRead},
    {"tokenizer.ggml.fim_pad_token_id", kRead},
    {"tokenizer.ggml.fim_rep_token_id", kRead},
    {"tokenizer.ggml.fim_sep_token_id", kRead},
    {"tokenizer.ggml.prefix_token_id", kRead},
    {"tokenizer.ggml.suffix_token_id", kRead},
    {"tokenizer.ggml.middle_token_id", kRead},
    {"tokenizer.ggml.seperator_token_id", kHarmless, "for pairs of texts"},
    {"tokenizer.ggml.padding_token_id", kHarmless, "for texts of equal length"},
    {"tokenizer.ggml.cls_token_id", kHarmless, "for vectors of whole texts"},
    {"tokenizer.ggml.mask_token_id", kHarmless, "for texts with masked words"},
    {"tokenizer.ggml.add_bos_token", kRead},
    {"tokenizer.ggml.add_eos_token", kRead},
    {"tokenizer.ggml.add_sep_token", kHarmless, "for pairs of texts"},
    {"tokenizer.ggml.add_seperator_token", kHarmless, "for pairs of texts"},
    {"tokenizer.ggml.add_unknown_token", kHarmless, "no text begins or ends with it"},
    {"tokenizer.ggml.add_padding_token", kHarmless, "for texts of equal length"},
    {"tokenizer.ggml.add_cls_token", kHarmless, "for vectors of whole texts"},
    {"tokenizer.ggml.add_mask_token", kHarmless, "for texts with masked words"},
    {"tokenizer.ggml.add_space_prefix", kRead},
    {"tokenizer.ggml.eos_token_ids", kHarmless, "a list beside eos_token_id, which converters of llama.cpp do not write"},
    {"tokenizer.ggml.remove_extra_whitespaces", kHarmless, "llama.cpp reads it only for T5's tokenizer, which is refused"},
    {"tokenizer.ggml.precompiled_charsmap", kHarmless, "llama.cpp reads it only for T5's tokenizer, which is refused"},
    {"tokenizer.huggingface.json", kHarmless, "the tokenizer in another form"},
};

bool covers(const KnownKey& known, std::string_view key) {
  const std::string_view name = known.key;
  return name.ends_with('.') ? key.starts_with(name) : key == name;
}

}  // namespace

std::span<const KnownKey> tokenizer_keys() { return kTokenizerKeys; }

void require_known_keys(const MetadataReader& reader, const Family& family) {
  const auto refuse = [&](const std::string& key) {
    throw ModelError(fmt::format("{}: {} is not supported; without it, the model would give another text", reader.file().name(), key));
  };
  for (const std::string& key : reader.unread()) {
    const bool harmless = std::ranges::any_of(kFamilyKeys, [&](const KnownKey& known) {
      return covers(known, key) && (!known.family || std::string_view(known.family) == family.name);
    });
    if (!harmless) refuse(fmt::format("{}.{}", family.name, key));
  }
  for (const auto& entry : reader.file().metadata()) {
    const std::string& key = entry.first;  // clang 14 cannot capture a name of a structured binding
    const bool known = std::ranges::any_of(kTokenizerKeys, [&](const KnownKey& known) { return covers(known, key); });
    if (key.starts_with("tokenizer.") && !known) refuse(key);
  }
}

}  // namespace yamata
