#include "src/model/unread_tensors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "node/error.hpp"
#include "src/model/weights.hpp"

namespace yamata {
namespace {

constexpr HarmlessTensor kHarmlessTensors[] = {
    {"blk.*.attn_rot_embd.weight", "RoPE's frequencies, which the metadata give"},
    {"blk.*.attn.rotary_emb.inv_freq", "RoPE's frequencies, which the metadata give"},
    {"blk.*.attn_kv_b.weight", "beside attn_k_b and attn_v_b, which say the same"},
    {"blk.*.input_scale", "for hardware that multiplies activations of four bits"},
    {"v.*", "for images"},
    {"mm.*", "for images"},
};

bool is_like(std::string_view pattern, std::string_view name) {
  const std::size_t star = pattern.find('*');
  const std::string_view before = pattern.substr(0, star), after = pattern.substr(star + 1);
  return name.size() >= before.size() + after.size() && name.starts_with(before) && name.ends_with(after);
}

/// Whether a stage computes with it, of those that are found.
bool is_used(const FoundTensor& found, const Hyperparameters& h) {
  const bool per_context = found.role == TensorRole::kLongRopeFactors || found.role == TensorRole::kShortRopeFactors;
  if (!per_context && found.role != TensorRole::kRopeFactors) return true;
  return per_context == (h.rope.kind == RopeScaling::Kind::kLong);
}

bool is_of_prediction(std::string_view name, const Hyperparameters& h) {
  for (std::int64_t layer = h.layers; layer < h.layers + h.nextn_layers; ++layer) {
    if (name.starts_with(fmt::format("blk.{}.", layer))) return true;
  }
  return false;
}

/// Of layers that read another layer's keys and values, and have matrices for their own all the same.
bool is_of_unused_keys(std::string_view name, const Hyperparameters& h) {
  for (std::int64_t layer = h.first_shared; h.first_shared > 0 && layer < h.layers; ++layer) {
    for (const char* what : {"k", "v", "k_norm"}) {
      if (name == fmt::format("blk.{}.attn_{}.weight", layer, what)) return true;
    }
  }
  return false;
}

/// Of layers that attend to all tokens, and have an index all the same, which is also in files where no layer uses it.
bool is_of_unused_index(std::string_view name, const Hyperparameters& h) {
  for (std::int64_t layer = 0; h.layer.streams > 0 && layer < h.layers; ++layer) {
    const LayerSpec spec = h.layer_at(layer);
    if (spec.attends() && spec.picked == 0 && name.starts_with(fmt::format("blk.{}.indexer.", layer))) return true;
  }
  return false;
}

}  // namespace

std::span<const HarmlessTensor> harmless_tensors() { return kHarmlessTensors; }

void require_all_read(const gguf::File& file, const Hyperparameters& h) {
  std::set<const gguf::Tensor*> read;
  for (const FoundTensor& found : find_tensors(file, h, {0, h.layers})) {
    if (is_used(found, h)) read.insert({found.tensor, found.scale});
  }
  for (const gguf::Tensor& tensor : file.tensors()) {
    const bool harmless =
        std::ranges::any_of(kHarmlessTensors, [&](const HarmlessTensor& known) { return is_like(known.name, tensor.name); });
    if (read.contains(&tensor) || harmless || is_of_prediction(tensor.name, h) || is_of_unused_keys(tensor.name, h) ||
        is_of_unused_index(tensor.name, h))
      continue;
    throw ModelError(fmt::format("{}: tensor {} is not supported in files of '{}'; without it, the model would give another text",
                                 file.name(), tensor.name, h.family->name));
  }
}

}  // namespace yamata
