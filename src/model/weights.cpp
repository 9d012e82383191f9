#include "src/model/weights.hpp"

#include <fmt/format.h>

#include "node/error.hpp"

namespace yamata {
namespace {

Matrix matrix(const gguf::File& file, const std::string& name, std::int64_t rows, std::int64_t cols) {
  const gguf::Tensor& t = file.tensor(name);
  if (t.cols() != cols || t.rows() != rows) {
    throw ModelError(
        fmt::format("{}: tensor {} is {} x {}, the metadata asks for {} x {}", file.name(), name, t.rows(), t.cols(), rows, cols));
  }
  return {t.type, rows, cols, t.data, t.bytes / static_cast<std::size_t>(rows)};
}

const float* vector(const gguf::File& file, const std::string& name, std::int64_t n) {
  const gguf::Tensor& t = file.tensor(name);
  if (t.type != TensorType::F32) throw ModelError(fmt::format("{}: tensor {} is not F32", file.name(), name));
  if (t.cols() * t.rows() != n)
    throw ModelError(fmt::format("{}: tensor {} has {} values, not {}", file.name(), name, t.cols() * t.rows(), n));
  return reinterpret_cast<const float*>(t.data);
}

void refuse_extras(const gguf::File& file, std::int64_t layer) {
  for (const char* bias : {"attn_q.bias", "attn_k.bias", "attn_v.bias", "attn_output.bias"}) {
    const std::string name = fmt::format("blk.{}.{}", layer, bias);
    if (file.find(name)) throw ModelError(fmt::format("{}: tensor {}: biases are not supported yet", file.name(), name));
  }
}

const char* output_name(const gguf::File& file) { return file.find("output.weight") ? "output.weight" : "token_embd.weight"; }

}  // namespace

StageWeights StageWeights::find(const gguf::File& file, const Hyperparameters& h, LayerRange range) {
  StageWeights w;
  const std::int64_t q_dim = h.heads * h.head_dim, kv_dim = h.kv_heads * h.head_dim;
  if (range.begin == 0) w.embedding = matrix(file, "token_embd.weight", h.vocabulary, h.dim);
  for (std::int64_t i = range.begin; i < range.end; ++i) {
    const std::string b = fmt::format("blk.{}.", i);
    refuse_extras(file, i);
    w.layers.push_back({
        vector(file, b + "attn_norm.weight", h.dim),
        matrix(file, b + "attn_q.weight", q_dim, h.dim),
        matrix(file, b + "attn_k.weight", kv_dim, h.dim),
        matrix(file, b + "attn_v.weight", kv_dim, h.dim),
        matrix(file, b + "attn_output.weight", h.dim, q_dim),
        vector(file, b + "ffn_norm.weight", h.dim),
        matrix(file, b + "ffn_gate.weight", h.ffn, h.dim),
        matrix(file, b + "ffn_up.weight", h.ffn, h.dim),
        matrix(file, b + "ffn_down.weight", h.dim, h.ffn),
    });
  }
  if (range.end == h.layers) {
    w.output_norm = vector(file, "output_norm.weight", h.dim);
    w.output = matrix(file, output_name(file), h.vocabulary, h.dim);
  }
  if (file.find("rope_freqs.weight")) w.rope_factors = vector(file, "rope_freqs.weight", h.rotary_dim / 2);
  return w;
}

std::vector<Matrix*> StageWeights::factors() {
  std::vector<Matrix*> all;
  for (LayerWeights& w : layers) all.insert(all.end(), {&w.q, &w.k, &w.v, &w.o, &w.gate, &w.up, &w.down});
  if (output) all.push_back(&*output);
  return all;
}

std::vector<std::span<const std::byte>> stage_tensors(const gguf::File& file, const Hyperparameters& h, LayerRange range) {
  std::vector<std::span<const std::byte>> tensors;
  const auto add = [&](const gguf::Tensor& t) { tensors.emplace_back(t.data, t.bytes); };
  if (range.begin == 0) add(file.tensor("token_embd.weight"));
  for (const gguf::Tensor& t : file.tensors()) {
    long long layer = -1;
    if (std::sscanf(t.name.c_str(), "blk.%lld.", &layer) == 1 && layer >= range.begin && layer < range.end) add(t);
  }
  const bool tied_here = range.begin == 0 && !file.find("output.weight");
  if (range.end == h.layers && !tied_here) add(file.tensor(output_name(file)));
  return tensors;
}

std::size_t stage_bytes(const gguf::File& file, const Hyperparameters& h, LayerRange range) {
  std::size_t bytes = 0;
  for (const auto& tensor : stage_tensors(file, h, range)) bytes += tensor.size();
  return bytes;
}

std::size_t layer_bytes(const gguf::File& file, std::int64_t layer) {
  const std::string prefix = fmt::format("blk.{}.", layer);
  std::size_t bytes = 0;
  for (const gguf::Tensor& t : file.tensors()) bytes += t.name.starts_with(prefix) ? t.bytes : 0;
  return bytes;
}

}  // namespace yamata
