#pragma once
// Small models of every family, with random weights: the same bytes on every machine.
#include <cstdint>
#include <string>
#include <vector>

#include "node/tensor_type.hpp"

namespace yamata::families_test {

/// Number of tokens that a token sees in layers with a window, including itself.
inline constexpr std::int64_t kWindow = 16;

/// The names of all families' variants.
std::vector<std::string> variant_names();

/// Variants with an MTP layer, which variant_names does not include: llama.cpp has no results for them. The name of the same model without
/// the layer has "-without" in place of "-nextn" and what follows.
std::vector<std::string> nextn_variant_names();

/// Writes a variant's model, or where the name ends in "-wide" a wider and quieter one (see `wide`); matrices of type F32 or F16, or,
/// `widened`, of F32 with the values that type has; the router and all vectors of F32. Weights are uniform, drawn by splitmix64
/// from a seed that is a hash of the tensor's name, and scaled so that a layer changes the residual stream about as much as there is of it
/// and the best token has most of the probability. Throws std::out_of_range for a name that is none.
void write_tiny_model(const std::string& variant, TensorType type, const std::string& path, bool widened = false);

/// The prompt for every variant.
std::vector<std::int32_t> tiny_prompt();

}  // namespace yamata::families_test
