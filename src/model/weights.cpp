#include "src/model/weights.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "node/error.hpp"

namespace yamata {
namespace {

std::int64_t length(Extent extent, const Hyperparameters& h) {
  switch (extent) {
    case Extent::kOne:
      return 1;
    case Extent::kDim:
      return h.dim;
    case Extent::kVocabulary:
      return h.vocabulary;
    case Extent::kQueries:
      return h.heads * h.head_dim;
    case Extent::kKeys:
      return h.kv_heads * h.head_dim;
    case Extent::kFfn:
      return h.ffn;
    case Extent::kRotaryPairs:
      return h.rotary_dim / 2;
  }
  return 0;
}

bool is_vector(const TensorRow& row) { return row.rows == Extent::kOne; }

void check_shape(const gguf::File& file, const gguf::Tensor& t, const TensorRow& row, std::int64_t rows, std::int64_t cols) {
  if (is_vector(row)) {
    if (t.type != TensorType::F32) throw ModelError(fmt::format("{}: tensor {} is not F32", file.name(), t.name));
    if (t.cols() * t.rows() != cols)
      throw ModelError(fmt::format("{}: tensor {} has {} values, not {}", file.name(), t.name, t.cols() * t.rows(), cols));
  } else if (t.cols() != cols || t.rows() != rows) {
    throw ModelError(
        fmt::format("{}: tensor {} is {} x {}, the metadata asks for {} x {}", file.name(), t.name, t.rows(), t.cols(), rows, cols));
  }
}

/// Whoever walks a family's table for one stage.
class Finder {
 public:
  Finder(const gguf::File& file, const Hyperparameters& h, const Shard& shard) : file_(file), h_(h), shard_(shard) {}

  void add(Holder holder, std::int64_t layer = -1) {
    const LayerSpec spec = layer < 0 ? h_.layer : layer_spec(file_, h_, layer);
    for (const TensorRow& row : h_.family->tensors) {
      if (row.holder == holder && (row.present == nullptr || row.present(spec))) add(row, layer);
    }
  }
  std::vector<FoundTensor> take() { return std::move(found_); }

 private:
  void add(const TensorRow& row, std::int64_t layer) {
    const std::string name = layer < 0 ? row.name : fmt::format("blk.{}.{}", layer, row.name);
    if (row.optional && !file_.find(name)) return;
    const gguf::Tensor& tensor = file_.tensor(row.instead != nullptr && !file_.find(name) ? row.instead : name);
    const std::int64_t rows = length(row.rows, h_), cols = length(row.cols, h_);
    check_shape(file_, tensor, row, rows, cols);
    const Interval here = row.role == TensorRole::kEmbedding ? Interval{0, rows} : shard_.rows(row.rows);
    found_.push_back({row.role, layer, &tensor, rows, cols, here});
  }

  const gguf::File& file_;
  const Hyperparameters& h_;
  const Shard& shard_;
  std::vector<FoundTensor> found_;
};

}  // namespace

LayerSpec layer_spec(const gguf::File& file, const Hyperparameters& h, std::int64_t layer) {
  LayerSpec spec = h.layer;
  const auto has = [&](const char* name) { return file.find(fmt::format("blk.{}.{}", layer, name)) != nullptr; };
  spec.qkv_bias |= has("attn_q.bias") || has("attn_k.bias") || has("attn_v.bias");
  spec.attention_output_bias |= has("attn_output.bias");
  spec.ffn_bias |= has("ffn_gate.bias") || has("ffn_up.bias") || has("ffn_down.bias");
  return spec;
}

std::vector<FoundTensor> find_tensors(const gguf::File& file, const Hyperparameters& h, LayerRange range, const Shard& shard) {
  Finder finder(file, h, shard);
  if (range.begin == 0) finder.add(Holder::kFirstStage);
  for (std::int64_t layer = range.begin; layer < range.end; ++layer) finder.add(Holder::kLayer, layer);
  if (range.end == h.layers) finder.add(Holder::kLastStage);
  finder.add(Holder::kEveryStage);
  return finder.take();
}

void WeightSet::put(const FoundTensor& found) {
  all_[static_cast<std::size_t>(found.role)] = {found.tensor->type, found.here.count(), found.cols, found.bytes().data(),
                                                found.row_bytes()};
}

/// All but vectors and the embedding, which is looked up in.
std::vector<Matrix*> WeightSet::factors() {
  std::vector<Matrix*> matrices;
  for (std::size_t role = 0; role < all_.size(); ++role) {
    const bool multiplied = all_[role].data != nullptr && all_[role].rows > 1 && role != static_cast<std::size_t>(TensorRole::kEmbedding);
    if (multiplied) matrices.push_back(&all_[role]);
  }
  return matrices;
}

StageWeights StageWeights::find(const gguf::File& file, const Hyperparameters& h, LayerRange range, const Shard& shard) {
  StageWeights w;
  for (std::int64_t layer = range.begin; layer < range.end; ++layer) {
    w.specs.push_back(layer_spec(file, h, layer));
    require_supported(file, w.specs.back(), layer);
  }
  w.layers.resize(w.specs.size());
  for (const FoundTensor& found : find_tensors(file, h, range, shard))
    (found.layer < 0 ? w.rest : w.layers[static_cast<std::size_t>(found.layer - range.begin)]).put(found);
  return w;
}

std::vector<Matrix*> StageWeights::factors() {
  std::vector<Matrix*> all;
  for (WeightSet& layer : layers) std::ranges::copy(layer.factors(), std::back_inserter(all));
  std::ranges::copy(rest.factors(), std::back_inserter(all));
  return all;
}

std::vector<std::span<const std::byte>> stage_tensors(const gguf::File& file, const Hyperparameters& h, LayerRange range,
                                                      const Shard& shard) {
  std::vector<std::span<const std::byte>> tensors;
  for (const FoundTensor& found : find_tensors(file, h, range, shard)) {
    const std::span<const std::byte> bytes = found.bytes();
    const bool again = std::ranges::any_of(tensors, [&](const auto& t) {
      return t.data() <= bytes.data() && bytes.data() + bytes.size() <= t.data() + t.size();
    });
    if (!again) tensors.push_back(bytes);
  }
  return tensors;
}

std::size_t stage_bytes(const gguf::File& file, const Hyperparameters& h, LayerRange range, const Shard& shard) {
  std::size_t bytes = 0;
  for (const auto& tensor : stage_tensors(file, h, range, shard)) bytes += tensor.size();
  return bytes;
}

std::size_t layer_bytes(const gguf::File& file, const Hyperparameters& h, std::int64_t layer) {
  const Shard shard(h);
  Finder finder(file, h, shard);
  finder.add(Holder::kLayer, layer);
  std::size_t bytes = 0;
  for (const FoundTensor& found : finder.take()) bytes += found.tensor->bytes;
  return bytes;
}

}  // namespace yamata
