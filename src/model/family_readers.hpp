#pragma once
// What of a family's metadata is its own: a function for each row of the table in family.cpp that needs one.

namespace yamata {

struct Hyperparameters;
class MetadataReader;

/// Reads a family's own keys after those that all families share, and may change what these said. Throws ModelError if a value is missing,
/// out of range or not supported.
using FamilyReader = void(const MetadataReader& reader, Hyperparameters& h);

FamilyReader read_llama, read_qwen, read_qwen2moe, read_qwen3moe, read_sections, read_qwen3vlmoe, read_gemma2, read_gemma3, read_olmo2,
    read_granite, read_gptneox, read_gpt_oss, read_glm4, read_glm4moe, read_mistral3, read_exaone4, read_smollm3, read_ernie4_5_moe,
    read_hunyuan_moe, read_minimax_m2, read_llama4, read_deepseek2, read_latent_scores, read_mistral4, read_states_and_experts,
    read_command_r, read_granite_scales;

}  // namespace yamata
