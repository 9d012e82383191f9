#include "src/model/hyperparameters.hpp"

#include <fmt/format.h>

#include <cmath>

#include "node/error.hpp"

namespace yamata {
namespace {

class Reader {
 public:
  Reader(const gguf::File& file, std::string prefix) : file_(file), prefix_(std::move(prefix)) {}

  std::int64_t count(const char* key, std::int64_t most, std::optional<std::int64_t> absent = {}) const {
    const auto value = file_.integer(prefix_ + key);
    if (!value && absent) return *absent;
    if (!value) throw ModelError(fmt::format("{}: {}{} is missing; the file is not complete", file_.name(), prefix_, key));
    if (*value < 1 || *value > most) {
      throw ModelError(fmt::format("{}: {}{} is {}, outside 1..{}", file_.name(), prefix_, key, *value, most));
    }
    return *value;
  }
  /// A finite number greater than 0.
  float real(const char* key, double absent) const {
    const auto value = static_cast<float>(file_.number(prefix_ + key).value_or(absent));
    if (!(value > 0) || std::isinf(value)) {
      throw ModelError(fmt::format("{}: {}{} is {}, not a positive number; convert the model again", file_.name(), prefix_, key, value));
    }
    return value;
  }

 private:
  const gguf::File& file_;
  std::string prefix_;
};

RopeScaling read_scaling(const gguf::File& file, const Reader& reader, const std::string& prefix, std::int64_t context) {
  RopeScaling rope;
  const std::string kind = file.string(prefix + "rope.scaling.type").value_or("none");
  if (kind == "none") {
    // Files older than rope.scaling.type; 0 says that the model does not scale.
    const bool old = file.number(prefix + "rope.scale_linear").value_or(0.0) != 0.0;
    const float old_linear = old ? reader.real("rope.scale_linear", 1.0) : 1.0f;
    if (old_linear != 1.0f) rope = {RopeScaling::Kind::kLinear, old_linear, 1.0f, context};
    return rope;
  }
  rope.factor = reader.real("rope.scaling.factor", 1.0);
  rope.attention_factor = reader.real("rope.scaling.attn_factor", 1.0);
  rope.original_context = reader.count("rope.scaling.original_context_length", 1 << 30, context);
  if (kind == "linear") {
    rope.kind = RopeScaling::Kind::kLinear;
  } else if (kind == "yarn") {
    rope.kind = RopeScaling::Kind::kYarn;
  } else {
    throw ModelError(fmt::format("{}: RoPE scaling '{}' is not supported; supported: none, linear, yarn", file.name(), kind));
  }
  return rope;
}

}  // namespace

Hyperparameters Hyperparameters::read(const gguf::File& file) {
  Hyperparameters h;
  h.family = &find_family(file);
  const std::string prefix = std::string(h.family->name) + ".";
  const Reader reader(file, prefix);
  h.layers = reader.count("block_count", 4096);
  h.dim = reader.count("embedding_length", 1 << 20);
  h.ffn = reader.count("feed_forward_length", 1 << 22);
  h.heads = reader.count("attention.head_count", 1 << 14);
  h.kv_heads = reader.count("attention.head_count_kv", h.heads, h.heads);
  h.head_dim = reader.count("attention.key_length", 512, h.dim / h.heads);
  h.context = reader.count("context_length", 1 << 30);
  h.epsilon = reader.real("attention.layer_norm_rms_epsilon", 1e-5);
  h.layer = h.family->layer;
  h.layer.rope_base = reader.real("rope.freq_base", h.layer.rope_base);
  h.rope = read_scaling(file, reader, prefix, h.context);
  if (h.rope.kind == RopeScaling::Kind::kYarn && h.layer.rope_base <= 1.0f) {
    throw ModelError(fmt::format("{}: {}rope.freq_base is {}, which YaRN cannot scale; convert the model again", file.name(), prefix,
                                 h.layer.rope_base));
  }
  h.vocabulary = file.tensor("token_embd.weight").rows();

  const auto refuse = [&](const std::string& what) { throw ModelError(fmt::format("{}: {}", file.name(), what)); };
  const auto* tokens = file.strings("tokenizer.ggml.tokens");
  if (tokens != nullptr && static_cast<std::int64_t>(tokens->size()) != h.vocabulary)
    refuse(
        fmt::format("the vocabulary has {} tokens, but token_embd.weight {} rows; convert the model again", tokens->size(), h.vocabulary));
  if (h.heads % h.kv_heads != 0) refuse(fmt::format("{} heads do not share {} key/value heads evenly", h.heads, h.kv_heads));
  if (h.head_dim < 16 || h.head_dim % 16 != 0 || h.head_dim > 512)
    refuse(fmt::format("head size {} is not a multiple of 16 up to 512", h.head_dim));
  h.rotary_dim = reader.count("rope.dimension_count", h.head_dim, h.head_dim);
  if (h.rotary_dim % 2 != 0) refuse(fmt::format("rotary dimension {} is odd", h.rotary_dim));
  if (file.integer(prefix + "attention.value_length").value_or(h.head_dim) != h.head_dim)
    refuse("key and value sizes differ, which is not supported");
  h.layer.window = file.integer(prefix + "attention.sliding_window").value_or(0);
  h.layer.experts = file.integer(prefix + "expert_count").value_or(0);
  require_supported(file, h.layer, 0);
  return h;
}

std::string beyond_training(const Hyperparameters& h, std::int64_t tokens) {
  if (tokens <= h.context) return "";
  using Kind = RopeScaling::Kind;
  const std::string scaling = h.rope.kind == Kind::kNone
                                  ? "no RoPE scaling"
                                  : fmt::format("RoPE scaling '{}' by {} from {} tokens", h.rope.kind == Kind::kYarn ? "yarn" : "linear",
                                                h.rope.factor, h.rope.original_context);
  return fmt::format(
      "a context of {} tokens is more than the {} that the model was trained for (its file has {}); text beyond them will be poor", tokens,
      h.context, scaling);
}

}  // namespace yamata
