// Identifies the tensors of a head that guesses from its own hidden states, in the supported layouts.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "node/error.hpp"
#include "src/draft_heads/draft_head.hpp"

namespace yamata::draft_heads {
namespace {

/// Names of a block's tensors: as in the Hugging Face library, or as in GGUF files.
struct BlockNames {
  const char *attention_norm, *hidden_norm, *q, *k, *v, *o, *ffn_norm, *gate, *up, *down;
};
constexpr BlockNames kHuggingFace{
    "input_layernorm.weight",  "hidden_norm.weight",      "self_attn.q_proj.weight",         "self_attn.k_proj.weight",
    "self_attn.v_proj.weight", "self_attn.o_proj.weight", "post_attention_layernorm.weight", "mlp.gate_proj.weight",
    "mlp.up_proj.weight",      "mlp.down_proj.weight"};
constexpr BlockNames kGguf{"attn_norm.weight",   "attn_norm_2.weight", "attn_q.weight",   "attn_k.weight", "attn_v.weight",
                           "attn_output.weight", "ffn_norm.weight",    "ffn_gate.weight", "ffn_up.weight", "ffn_down.weight"};

/// Finds the tensors of one file.
class Finder {
 public:
  Finder(const CheckedTensors& tensors, Kind kind) : tensors_(tensors), names_(tensors.all().gguf() ? kGguf : kHuggingFace) {
    shape_.kind = kind;
  }

  DraftHeadShape find() {
    read_numbers();
    find_fusion();
    find_blocks();
    find_output();
    return std::move(shape_);
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const { throw ModelError(fmt::format("{}: {}", tensors_.all().path(), what)); }
  const Hyperparameters& target() const { return tensors_.target().h; }
  bool eagle3() const { return shape_.kind == Kind::kEagle3; }
  /// A number from a config.json, or from a GGUF file's metadata.
  double number(const char* config, const char* gguf, double otherwise) const { return find_number(config, gguf).value_or(otherwise); }
  std::optional<double> find_number(const char* config, const char* gguf) const {
    const TensorViews& all = tensors_.all();
    return all.number(all.gguf() ? fmt::format("eagle3.{}", gguf) : config);
  }
  /// A positive whole number, likewise; nothing if there is none.
  std::optional<std::int64_t> count(const char* config, const char* gguf) const {
    constexpr double kMax = 1 << 20;
    const auto value = find_number(config, gguf);
    if (!value) return std::nullopt;
    if (!(*value >= 1 && *value <= kMax && *value == std::floor(*value)))
      refuse(fmt::format("its {} is {}, but must be a positive whole number; copy or download it again",
                         tensors_.all().gguf() ? gguf : config, *value));
    return static_cast<std::int64_t>(*value);
  }
  bool flag(const char* name) const {
    if (const gguf::File* file = tensors_.all().gguf()) return file->boolean(fmt::format("eagle3.{}", name)).value_or(false);
    return tensors_.all().number(name).value_or(0) != 0;
  }

  void read_numbers() {
    shape_.epsilon = static_cast<float>(number("rms_norm_eps", "attention.layer_norm_rms_epsilon", static_cast<double>(target().epsilon)));
    shape_.rope_base = static_cast<float>(number("rope_theta", "rope.freq_base", static_cast<double>(target().layer.rope_base)));
    if (!(shape_.epsilon >= 0))
      refuse(fmt::format("its rms_norm_eps is {}, but must not be negative; copy or download it again", shape_.epsilon));
    if (!(shape_.rope_base > 0))
      refuse(fmt::format("its rope_theta is {}, but must be positive; copy or download it again", shape_.rope_base));
    shape_.interleaved = tensors_.all().gguf() != nullptr || tensors_.all().text("rope") == "interleaved";
    shape_.norm_before_residual = flag("norm_before_residual");
  }

  void find_fusion() {
    const std::int64_t hidden = target().dim;
    shape_.dim = hidden;
    shape_.features = hidden;
    shape_.layers = {kOutputFeatures};
    if (shape_.kind == Kind::kDgf) {
      shape_.embedding_norm = &tensors_.vector("input_layernorm.weight", hidden);
      shape_.w1 = &tensors_.get("W_1", hidden, hidden);
      shape_.w2 = &tensors_.get("W_2", hidden, hidden);
      shape_.wz = &tensors_.get("W_z", 2 * hidden, hidden);
    } else if (shape_.kind == Kind::kEagle) {
      shape_.fc = &tensors_.get("fc.weight", hidden, 2 * hidden);
      shape_.fc_bias = tensors_.find("fc.bias", 1, hidden);
    } else {
      shape_.dim = tensors_.get("fc.weight").rows;
      shape_.layers = read_layers();
      shape_.features = static_cast<std::int64_t>(shape_.layers.size()) * hidden;
      shape_.fc = &tensors_.get("fc.weight", shape_.dim, shape_.features);
      if (flag("norm_before_fc")) shape_.fc_norm = &tensors_.vector("input_norm.weight", shape_.features);
    }
    shape_.embedding = tensors_.find(tensors_.all().gguf() ? "token_embd.weight" : "embed_tokens.weight", target().vocabulary, shape_.dim);
    if (!shape_.embedding && shape_.dim != hidden)
      refuse(fmt::format("it computes {} values where the target has {}, and has no embed_tokens.weight", shape_.dim, hidden));
  }

  /// The layers whose inputs EAGLE-3 reads.
  std::vector<std::int32_t> read_layers() const {
    const TensorViews& all = tensors_.all();
    std::vector<std::int64_t> named = all.numbers(all.gguf() ? "eagle3.target_layers" : "eagle_aux_hidden_state_layer_ids");
    if (named.empty() && all.gguf()) named = all.numbers("eagle3.extract_layers");
    std::vector<std::int32_t> layers;
    for (const std::int64_t layer : named) {
      if (layer < 0 || layer >= target().layers)
        refuse(fmt::format("it reads layer {} of a target that has {}; are these heads another model's?", layer, target().layers));
      layers.push_back(static_cast<std::int32_t>(layer));
    }
    if (layers.empty()) layers = eagle3_layers(target().layers);
    if (!std::is_sorted(layers.begin(), layers.end()) || std::adjacent_find(layers.begin(), layers.end()) != layers.end())
      refuse(fmt::format("it reads layers {}, which do not ascend; train it again", fmt::join(layers, ", ")));
    return layers;
  }

  /// The prefix of a block's tensor names; empty: there is no such block.
  std::string block_name(std::size_t index) const {
    const std::string names[] = {fmt::format("layers.{}.", index), index == 0 ? "midlayer." : "", fmt::format("blk.{}.", index)};
    for (const std::string& name : names) {
      if (!name.empty() && tensors_.find(name + names_.q)) return name;
    }
    return "";
  }

  void find_blocks() {
    const std::int64_t dim = shape_.dim;
    for (std::string name = block_name(0); !name.empty(); name = block_name(shape_.blocks.size())) {
      const auto get = [&](const char* tensor, std::int64_t rows, std::int64_t cols) { return &tensors_.get(name + tensor, rows, cols); };
      if (shape_.blocks.empty()) measure_block(name);
      const std::int64_t q = shape_.heads * shape_.head_dim, kv = shape_.kv_heads * shape_.head_dim;
      const bool wide = eagle3() && shape_.blocks.empty();
      const std::int64_t in = wide ? 2 * dim : dim;
      BlockTensors& block = shape_.blocks.emplace_back();
      block.attention_norm = tensors_.find(name + names_.attention_norm, 1, dim);
      if (wide) block.attention_norm = get(names_.attention_norm, 1, dim);
      if (wide) block.hidden_norm = get(names_.hidden_norm, 1, dim);
      block.q = get(names_.q, q, in);
      block.k = get(names_.k, kv, in);
      block.v = get(names_.v, kv, in);
      block.o = get(names_.o, dim, q);
      block.ffn_norm = get(names_.ffn_norm, 1, dim);
      block.gate = get(names_.gate, shape_.ffn, dim);
      block.up = get(names_.up, shape_.ffn, dim);
      block.down = get(names_.down, dim, shape_.ffn);
    }
    if (shape_.blocks.empty()) refuse(fmt::format("tensor layers.0.{} is missing; is it the right file?", names_.q));
  }

  /// The numbers of heads come from the metadata; else from the tensors and the target's head size.
  void measure_block(const std::string& name) {
    const TensorView &q = tensors_.get(name + names_.q), &k = tensors_.get(name + names_.k);
    const auto heads = count("num_attention_heads", "attention.head_count");
    shape_.head_dim = count("head_dim", "attention.key_length").value_or(heads ? q.rows / *heads : target().query_dim());
    if (shape_.head_dim < 2 || shape_.head_dim % 2 != 0 || q.rows % shape_.head_dim != 0 || k.rows % shape_.head_dim != 0)
      refuse(fmt::format("tensor {} is {} x {}, which are no heads of {} values", q.name, q.rows, q.cols, shape_.head_dim));
    if (shape_.head_dim % 16 != 0) refuse(fmt::format("its heads have {} values, not a multiple of 16", shape_.head_dim));
    shape_.heads = q.rows / shape_.head_dim;
    shape_.kv_heads = k.rows / shape_.head_dim;
    if (shape_.kv_heads == 0 || shape_.heads % shape_.kv_heads != 0)
      refuse(fmt::format("tensor {}: {} heads of queries do not share {} of keys", k.name, shape_.heads, shape_.kv_heads));
    shape_.ffn = tensors_.get(name + names_.gate).rows;
  }

  void find_output() {
    const bool gguf = tensors_.all().gguf() != nullptr;
    if (eagle3()) shape_.norm = &tensors_.vector(gguf ? "output_norm.weight" : "norm.weight", shape_.dim);
    const TensorView* output = tensors_.find(gguf ? "output.weight" : "lm_head.weight");
    shape_.output_rows = output ? output->rows : target().vocabulary;
    if (output) shape_.output = tensors_.find(output->name, shape_.output_rows, shape_.dim);
    if (!output && shape_.dim != target().dim) refuse("tensor lm_head.weight is missing; is it the right file?");
    if (shape_.output_rows != target().vocabulary || has_table()) read_tokens();
  }

  bool has_table() const { return tensors_.all().integers("d2t").has_value(); }

  /// Maps the rows of the output to the target's tokens: safetensors store differences to the row number, GGUF stores the tokens.
  void read_tokens() {
    std::vector<std::int64_t> table;
    if (const auto integers = tensors_.all().integers("d2t")) table = *integers;
    if (std::ssize(table) != shape_.output_rows) {
      throw ModelError(
          fmt::format("{}: tensor d2t has {} values where the {} rows of the output need as many; are these heads another model's?",
                      tensors_.all().path(), table.size(), shape_.output_rows));
    }
    for (std::int64_t row = 0; row < shape_.output_rows; ++row) {
      const std::int64_t token = table[static_cast<std::size_t>(row)] + (tensors_.all().gguf() ? 0 : row);
      if (token < 0 || token >= target().vocabulary)
        refuse(
            fmt::format("tensor d2t names token {} of a target that has {}; are these heads another model's?", token, target().vocabulary));
      shape_.tokens.push_back(static_cast<std::int32_t>(token));
    }
  }

  const CheckedTensors& tensors_;
  const BlockNames& names_;
  DraftHeadShape shape_;
};

}  // namespace

DraftHeadShape DraftHeadShape::find(const CheckedTensors& tensors, Kind kind) {
  DraftHeadShape shape = Finder(tensors, kind).find();
  tensors.require_all_read("");
  return shape;
}

}  // namespace yamata::draft_heads
