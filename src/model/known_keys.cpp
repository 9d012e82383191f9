#include "src/model/known_keys.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "node/error.hpp"

namespace yamata {
namespace {

constexpr HarmlessKey kHarmlessKeys[] = {
    {"vocab_size", "the embedding has as many rows"},
    {"tensor_data_layout", "an order of rows that older converters undid"},
    {"pooling_type", "for vectors of whole texts, not for tokens"},
    {"rope.scaling.finetuned", "how the model was trained"},
    {"attention.layer_norm_epsilon", "the family's norms have another key"},
    {"attention.layer_norm_rms_epsilon", "the family's norms have another key"},
    {"rope.dimension_sections", "all positions of a text are equal", "glm4moe"},
    {"attention.sliding_window", "converted files disagree; all tokens are seen, as in llama.cpp", "phi3"},
    {"attention.sliding_window", "converted files disagree; all tokens are seen, as in llama.cpp", "starcoder2"},
    {"vision.", "for images"},
    {"mm.", "for images"},
};

constexpr const char* kRead = "read";
constexpr HarmlessKey kTokenizer[] = {
    {"tokenizer.chat_template", kRead},
    {"tokenizer.chat_template.", "templates for other uses"},
    {"tokenizer.chat_templates", "names of templates for other uses"},
    {"tokenizer.ggml.model", kRead},
    {"tokenizer.ggml.pre", kRead},
    {"tokenizer.ggml.tokens", kRead},
    {"tokenizer.ggml.token_type", kRead},
    {"tokenizer.ggml.token_type_count", "for pairs of texts"},
    {"tokenizer.ggml.scores", kRead},
    {"tokenizer.ggml.merges", kRead},
    {"tokenizer.ggml.added_tokens", "they are among the tokens"},
    {"tokenizer.ggml.bos_token_id", kRead},
    {"tokenizer.ggml.eos_token_id", kRead},
    {"tokenizer.ggml.eot_token_id", kRead},
    {"tokenizer.ggml.eom_token_id", kRead},
    {"tokenizer.ggml.unknown_token_id", kRead},
    {"tokenizer.ggml.fim_", "for texts with a gap; ends of a text among them are read"},
    {"tokenizer.ggml.prefix_token_id", "for texts with a gap"},
    {"tokenizer.ggml.suffix_token_id", "for texts with a gap"},
    {"tokenizer.ggml.middle_token_id", "for texts with a gap"},
    {"tokenizer.ggml.seperator_token_id", "for pairs of texts"},
    {"tokenizer.ggml.padding_token_id", "for texts of equal length"},
    {"tokenizer.ggml.cls_token_id", "for vectors of whole texts"},
    {"tokenizer.ggml.mask_token_id", "for texts with masked words"},
    {"tokenizer.ggml.add_bos_token", kRead},
    {"tokenizer.ggml.add_eos_token", kRead},
    {"tokenizer.ggml.add_sep_token", "for pairs of texts"},
    {"tokenizer.ggml.add_seperator_token", "for pairs of texts"},
    {"tokenizer.ggml.add_unknown_token", "no text begins or ends with it"},
    {"tokenizer.ggml.add_padding_token", "for texts of equal length"},
    {"tokenizer.ggml.add_cls_token", "for vectors of whole texts"},
    {"tokenizer.ggml.add_mask_token", "for texts with masked words"},
    {"tokenizer.ggml.add_space_prefix", kRead},
    {"tokenizer.ggml.eos_token_ids", "a list beside eos_token_id, which converters of llama.cpp do not write"},
    {"tokenizer.ggml.remove_extra_whitespaces", "llama.cpp reads it only for T5's tokenizer, which is refused"},
    {"tokenizer.ggml.precompiled_charsmap", "llama.cpp reads it only for T5's tokenizer, which is refused"},
    {"tokenizer.huggingface.json", "the tokenizer in another form"},
};

bool covers(const HarmlessKey& known, std::string_view key) {
  const std::string_view name = known.key;
  return name.ends_with('.') || name.ends_with('_') ? key.starts_with(name) : key == name;
}

}  // namespace

std::span<const HarmlessKey> harmless_keys() { return kHarmlessKeys; }
std::span<const HarmlessKey> tokenizer_keys() { return kTokenizer; }

void require_known_keys(const MetadataReader& reader, const Family& family) {
  const auto refuse = [&](const std::string& key) {
    throw ModelError(fmt::format("{}: {} is not supported; without it, the model would give another text", reader.file().name(), key));
  };
  for (const std::string& key : reader.unread()) {
    const bool harmless = std::ranges::any_of(kHarmlessKeys, [&](const HarmlessKey& known) {
      return covers(known, key) && (!known.family || std::string_view(known.family) == family.name);
    });
    if (!harmless) refuse(fmt::format("{}.{}", family.name, key));
  }
  for (const auto& entry : reader.file().metadata()) {
    const std::string& key = entry.first;  // clang 14 cannot capture a name of a structured binding
    const bool known = std::ranges::any_of(kTokenizer, [&](const HarmlessKey& known) { return covers(known, key); });
    if (key.starts_with("tokenizer.") && !known) refuse(key);
  }
}

}  // namespace yamata
