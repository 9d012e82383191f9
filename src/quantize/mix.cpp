#include "src/quantize/mix.hpp"

#include <algorithm>
#include <cctype>
#include <cstdio>

#include "src/model/hyperparameters.hpp"
#include "src/quantize/row.hpp"

namespace yamata::quantize {
namespace {

struct KindRow {
  std::string_view name;
  Kind kind;
  TensorType base;
};
constexpr KindRow kKinds[] = {
    {"F32", Kind::F32, TensorType::F32},          {"F16", Kind::F16, TensorType::F16},
    {"BF16", Kind::BF16, TensorType::BF16},       {"Q8_0", Kind::Q8_0, TensorType::Q8_0},
    {"Q6_K", Kind::Q6_K, TensorType::Q6_K},       {"Q5_0", Kind::Q5_0, TensorType::Q5_0},
    {"Q5_1", Kind::Q5_1, TensorType::Q5_1},       {"Q5_K", Kind::Q5_K_M, TensorType::Q5_K},
    {"Q5_K_S", Kind::Q5_K_S, TensorType::Q5_K},   {"Q5_K_M", Kind::Q5_K_M, TensorType::Q5_K},
    {"Q4_0", Kind::Q4_0, TensorType::Q4_0},       {"Q4_1", Kind::Q4_1, TensorType::Q4_1},
    {"Q4_K", Kind::Q4_K_M, TensorType::Q4_K},     {"Q4_K_S", Kind::Q4_K_S, TensorType::Q4_K},
    {"Q4_K_M", Kind::Q4_K_M, TensorType::Q4_K},   {"IQ4_NL", Kind::IQ4_NL, TensorType::IQ4_NL},
    {"IQ4_XS", Kind::IQ4_XS, TensorType::IQ4_XS}, {"Q3_K", Kind::Q3_K_M, TensorType::Q3_K},
    {"Q3_K_S", Kind::Q3_K_S, TensorType::Q3_K},   {"Q3_K_M", Kind::Q3_K_M, TensorType::Q3_K},
    {"Q3_K_L", Kind::Q3_K_L, TensorType::Q3_K},   {"Q2_K", Kind::Q2_K, TensorType::Q2_K},
    {"Q2_K_S", Kind::Q2_K_S, TensorType::Q2_K},   {"MXFP4_MOE", Kind::MXFP4_MOE, TensorType::MXFP4},
};

bool same_word(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](unsigned char x, unsigned char y) { return std::toupper(x) == std::toupper(y); });
}

bool has(const gguf::Tensor& tensor, const char* part) { return tensor.name.find(part) != std::string::npos; }
bool is_output(std::string_view name) { return name == "output.weight"; }
bool is_attention_value(const gguf::Tensor& tensor) {
  return has(tensor, "attn_v.weight") || has(tensor, "attn_qkv.weight") || has(tensor, "attn_kv_b.weight");
}

/// Number of dimensions without trailing ones.
std::size_t dimensions(const gguf::Tensor& tensor) {
  std::size_t n = tensor.shape.size();
  while (n > 1 && tensor.shape[n - 1] == 1) --n;
  return n;
}

/// The N of "blk.N."; -1 if the tensor belongs to no layer.
int layer_of(const gguf::Tensor& tensor) {
  int layer = -1;
  std::sscanf(tensor.name.c_str(), "blk.%d.", &layer);
  return layer;
}

/// The first and the last eighth of the layers, and every third layer between them.
bool use_more_bits(int i, int layers) { return i < layers / 8 || i >= 7 * layers / 8 || (i - layers / 8) % 3 == 2; }

bool whole_blocks(const gguf::Tensor& tensor, TensorType type) { return tensor.cols() % traits(type).block_elements == 0; }

/// A format of about the same size whose blocks divide the rows; F16 as the last choice.
TensorType fitting(const gguf::Tensor& tensor, TensorType wanted) {
  TensorType type = wanted;
  if (whole_blocks(tensor, type)) return type;
  switch (wanted) {
    case TensorType::IQ4_XS:
      type = TensorType::IQ4_NL;
      break;
    case TensorType::Q2_K:
    case TensorType::Q3_K:
      type = TensorType::Q4_0;
      break;
    case TensorType::Q4_K:
      type = TensorType::Q5_0;
      break;
    case TensorType::Q5_K:
      type = TensorType::Q5_1;
      break;
    case TensorType::Q6_K:
      type = TensorType::Q8_0;
      break;
    default:
      break;
  }
  return whole_blocks(tensor, type) ? type : TensorType::F16;
}

}  // namespace

bool is_embedding(std::string_view name) { return name == "token_embd.weight" || name == "per_layer_token_embd.weight"; }

std::optional<Kind> find_kind(std::string_view name) {
  for (const KindRow& row : kKinds) {
    if (same_word(row.name, name)) return row.kind;
  }
  return std::nullopt;
}

std::string kind_name(Kind kind) {
  std::string name;
  for (const KindRow& row : kKinds) {
    if (row.kind == kind) name = row.name;  // the alias is first in the table
  }
  return name;
}

std::string kind_names() {
  std::string names;
  for (const KindRow& row : kKinds) names.append(names.empty() ? "" : ", ").append(row.name);
  return names;
}

std::optional<TensorType> find_tensor_type(std::string_view name) {
  for (std::uint32_t raw = 0; raw < kTensorTypeCount; ++raw) {
    const TypeTraits* found = find_type(raw);
    const auto type = static_cast<TensorType>(raw);
    if (found && is_written(type) && same_word(found->name, name)) return type;
  }
  return std::nullopt;
}

TensorType base_type(Kind kind) {
  return std::find_if(std::begin(kKinds), std::end(kKinds), [&](const KindRow& row) { return row.kind == kind; })->base;
}

bool needs_importance(Kind kind, TensorType type, std::string_view tensor) {
  return kind == Kind::Q2_K_S && type == TensorType::Q2_K && !is_embedding(tensor) && !is_output(tensor);
}

bool is_quantizable(const gguf::Tensor& tensor) {
  return dimensions(tensor) >= 2 && tensor.name.ends_with("weight") && !has(tensor, "_norm.weight") &&
         !has(tensor, "ffn_gate_inp.weight") && !has(tensor, "ssm_conv1d.weight") && !has(tensor, "shortconv.conv.weight") &&
         !has(tensor, "per_layer_model_proj.weight");
}

Mix::Mix(const gguf::File& file, const std::vector<const gguf::Tensor*>& tensors, const MixOptions& options)
    : options_(options), base_(base_type(options.kind)) {
  const Hyperparameters h = Hyperparameters::read(file);
  layers_ = static_cast<int>(h.layers);
  grouped_ = h.heads / h.kv_heads >= 4;
  has_experts_ = h.layer.experts > 0;
  is_70b_ = h.layers == 80 && h.heads != h.kv_heads;
  for (const gguf::Tensor* tensor : tensors) {
    if (is_attention_value(*tensor)) ++values_;
    if (is_output(tensor->name)) tied_ = false;
  }
}

Choice Mix::choose(const gguf::Tensor& tensor) {
  if (!is_quantizable(tensor) || (options_.leave_output && is_output(tensor.name))) return {tensor.type, tensor.type};
  TensorType wanted = base_;
  if (options_.embedding_type && is_embedding(tensor.name)) {
    wanted = *options_.embedding_type;
  } else if (options_.output_type && is_output(tensor.name)) {
    wanted = *options_.output_type;
  } else if (!options_.pure && traits(base_).block_elements > 1) {
    wanted = mixed(tensor);
  }
  return {wanted, fitting(tensor, wanted)};
}

TensorType Mix::mixed(const gguf::Tensor& tensor) {
  if (options_.kind == Kind::MXFP4_MOE) return dimensions(tensor) > 2 ? TensorType::MXFP4 : TensorType::Q8_0;
  if (is_output(tensor.name) || (tied_ && is_embedding(tensor.name))) {
    if (options_.output_type) return *options_.output_type;
    return whole_blocks(tensor, base_) ? output() : TensorType::Q8_0;
  }
  if (is_embedding(tensor.name)) return base_;
  if (is_attention_value(tensor)) return attention_value(next_value_++);
  if (has(tensor, "attn_k.weight") || has(tensor, "attn_q.weight")) return base_;
  if (has(tensor, "attn_output.weight")) return attention_output();
  if (has(tensor, "ffn_up") || has(tensor, "ffn_gate")) return base_;
  if (has(tensor, "ffn_down")) return feed_forward_down(has_experts_ ? layer_of(tensor) : next_down_++);
  return base_;
}

TensorType Mix::output() const { return base_ == TensorType::Q8_0 ? TensorType::Q8_0 : TensorType::Q6_K; }

TensorType Mix::attention_value(int i) const {
  TensorType type = base_;
  switch (options_.kind) {
    case Kind::Q2_K:
      type = grouped_ ? TensorType::Q4_K : TensorType::Q3_K;
      break;
    case Kind::Q2_K_S:
      if (grouped_) type = TensorType::Q4_K;
      break;
    case Kind::Q3_K_M:
      type = i < 2 ? TensorType::Q5_K : TensorType::Q4_K;
      break;
    case Kind::Q3_K_L:
      type = TensorType::Q5_K;
      break;
    case Kind::IQ4_NL:
    case Kind::IQ4_XS:
      if (grouped_) type = TensorType::Q5_K;
      break;
    case Kind::Q4_K_M:
    case Kind::Q5_K_M:
      if (use_more_bits(i, values_)) type = TensorType::Q6_K;
      break;
    case Kind::Q4_K_S:
      if (i < 4) type = TensorType::Q5_K;
      break;
    default:
      break;
  }
  // Eight heads of a 70B model share these weights, so more bits cost almost nothing.
  if (is_70b_ && (type == TensorType::Q3_K || type == TensorType::Q4_K)) type = TensorType::Q5_K;
  return type;
}

TensorType Mix::feed_forward_down(int i) const {
  const bool early = i < layers_ / 8;
  switch (options_.kind) {
    case Kind::Q2_K:
      return TensorType::Q3_K;
    case Kind::Q2_K_S:
      return early ? TensorType::Q4_K : base_;
    case Kind::Q3_K_M:
      return i < layers_ / 16 ? TensorType::Q5_K : TensorType::Q4_K;
    case Kind::Q3_K_L:
      return TensorType::Q5_K;
    case Kind::Q4_K_M:
    case Kind::Q5_K_M:
      return use_more_bits(i, layers_) ? TensorType::Q6_K : base_;
    case Kind::Q4_K_S:
      return early ? TensorType::Q5_K : base_;
    case Kind::IQ4_NL:
    case Kind::IQ4_XS:
      return early && !options_.has_importance ? TensorType::Q5_K : base_;
    case Kind::Q4_0:
      return early && options_.has_importance ? TensorType::Q4_1 : base_;
    case Kind::Q5_0:
      return early && options_.has_importance ? TensorType::Q5_1 : base_;
    default:
      return base_;
  }
}

TensorType Mix::attention_output() const {
  switch (options_.kind) {
    case Kind::Q2_K:
      return TensorType::Q3_K;
    case Kind::Q3_K_M:
      return TensorType::Q4_K;
    case Kind::Q3_K_L:
      return TensorType::Q5_K;
    default:
      return base_;
  }
}

}  // namespace yamata::quantize
