#include "src/model/weights.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "node/counted.hpp"
#include "node/cpu/kernels/kernels.hpp"
#include "node/cpu/kernels/repack.hpp"
#include "node/error.hpp"
#include "src/model/tensor_sizes.hpp"

namespace yamata {
namespace {

/// Whether a tensor NAME.weight may have a factor of all its weights, NAME.scale, beside it.
bool may_have_scale(TensorRole role) {
  using enum TensorRole;
  constexpr TensorRole kScaled[] = {kQ,          kK,        kV,          kO,          kGate,     kUp,        kDown,
                                    kExpertGate, kExpertUp, kExpertDown, kSharedGate, kSharedUp, kSharedDown};
  return std::ranges::find(kScaled, role) != std::end(kScaled);
}

bool is_vector(const TensorRow& row) { return row.rows == Extent::kOne; }

/// Finds the tensors of a family's table for one stage.
class Finder {
 public:
  Finder(const gguf::File& file, const Hyperparameters& h, const Shard& shard)
      : file_(file), whole_(h), whole_shard_(shard), h_(h), shard_(shard) {}

  void add(Holder holder, std::int64_t layer = -1) {
    spec_ = whole_.layer_at(std::max<std::int64_t>(layer, 0));
    layer_ = layer;
    if (whole_.varies()) {
      h_ = layer < 0 ? whole_ : whole_.of_layer(layer);
      shard_ = layer < 0 ? whole_shard_ : whole_shard_.of_layer(whole_, layer);
    }
    for (const TensorRow& row : h_.family->tensors) {
      if (row.holder == holder && (row.present == nullptr || row.present(spec_))) add(row);
    }
  }
  std::vector<FoundTensor> take() { return std::move(found_); }

 private:
  std::string full(const std::string& name) const { return layer_ < 0 ? name : fmt::format("blk.{}.{}", layer_, name); }
  const gguf::Tensor* find(const char* name) const { return name ? file_.find(full(name)) : nullptr; }

  void add(const TensorRow& row) {
    const char *name = row.name, *instead = row.instead;
    for (const Renamed& other : h_.family->renamed) {
      if (other.role == row.role) name = other.name, instead = other.instead;
    }
    if (row.copies == Copies::kPerExpert) return add_experts(row, name);
    if (row.copies == Copies::kPerHead) return add_heads(row, name);
    const Fused part = row.fusion == Fusion::kNone ? Fused{} : fused_rows(row, h_);
    const gguf::Tensor* whole = find(row.fused);
    // A tensor of gate and up together may have the name of one of them.
    if (whole && row.fusion == Fusion::kGateUp && (find("ffn_gate.weight") || whole->rows() != part.all)) whole = nullptr;
    if (whole && (row.fusion != Fusion::kQkv || !find(name))) return add_part(row, *whole, part);
    if (!find(name) && find(instead)) name = instead;
    if (row.optional && !find(name)) return;
    const gguf::Tensor& tensor = file_.tensor(full(name));
    FoundTensor found = of(row, tensor);
    require_shape(row, tensor, found.rows, found.cols);
    found.scale = scale_of(row, tensor, 1);
    found_.push_back(found);
  }

  /// The factors of a tensor's weights, if the file has them.
  const gguf::Tensor* scale_of(const TensorRow& row, const gguf::Tensor& tensor, std::int64_t count) const {
    constexpr std::string_view kWeight = ".weight";
    if (!h_.layer.scaled || !may_have_scale(row.role) || !tensor.name.ends_with(kWeight)) return nullptr;
    const std::string base = tensor.name.substr(0, tensor.name.size() - kWeight.size());
    const gguf::Tensor* scale = file_.find(base + ".scale");
    if (!scale) return nullptr;
    if (scale->type != TensorType::F32 || scale->integer_bytes > 0 || scale->cols() * scale->rows() != count)
      throw ModelError(
          fmt::format("{}: tensor {} has not {} of F32; convert the model again", file_.name(), scale->name, counted(count, "value")));
    const bool dense = row.role == TensorRole::kGate || row.role == TensorRole::kUp || row.role == TensorRole::kDown;
    if (dense && file_.find(base + ".bias"))
      throw ModelError(fmt::format("{}: tensor {} beside a bias is not supported", file_.name(), scale->name));
    return scale;
  }

  /// The row's tensor, if it contains nothing else.
  FoundTensor of(const TensorRow& row, const gguf::Tensor& tensor) const {
    const std::int64_t rows = length(row.rows, h_, spec_);
    const Interval here = is_looked_up(row.role) ? Interval{0, rows} : shard_.rows(row.rows);
    return {row.role, layer_, &tensor, rows, length(row.cols, h_, spec_), here.count() > 0 ? here : Interval{0, rows}};
  }

  void add_part(const TensorRow& row, const gguf::Tensor& tensor, Fused part) {
    FoundTensor found = of(row, tensor);
    require_shape(row, tensor, is_vector(row) ? 1 : part.all, is_vector(row) ? part.all : found.cols);
    found.begin = static_cast<std::size_t>(part.before) * (is_vector(row) ? sizeof(float) : found.row_bytes());
    found.scale = scale_of(row, tensor, 1);
    found_.push_back(found);
  }

  void add_experts(const TensorRow& row, const char* name) {
    const bool fused = !find(name) && find(row.fused);
    const gguf::Tensor* merged = fused ? find(row.fused) : find(name);
    const Fused part = fused ? fused_rows(row, h_) : Fused{length(row.rows, h_, spec_), 0};
    for (std::int64_t e = 0; e < spec_.experts; ++e) {
      const std::string own = full(fmt::format(fmt::runtime(row.single), e));
      const gguf::Tensor& tensor = merged ? *merged : file_.tensor(e == 0 && !file_.find(own) ? full(name) : own);
      FoundTensor found = of(row, tensor);
      if (e == 0 || !merged) require_shape(row, tensor, merged ? spec_.experts * part.all : found.rows, found.cols);
      if (e > 0 && tensor.type != found_.back().tensor->type) {
        throw ModelError(
            fmt::format("{}: tensor {} has another type than the experts before it; convert the model again", file_.name(), tensor.name));
      }
      found.copy = e, found.of_expert = true;
      if (merged) found.scale = e == 0 ? scale_of(row, tensor, spec_.experts) : found_.back().scale;
      if (merged) found.begin = static_cast<std::size_t>(e * part.all + part.before) * found.row_bytes();
      found_.push_back(found);
    }
  }

  /// The rows of the heads on this rank. A tensor of keys and values has each head's key, then its value, as rows.
  void add_heads(const TensorRow& row, const char* name) {
    const gguf::Tensor* own = find(name);
    const gguf::Tensor& tensor = own || !find(row.single) ? file_.tensor(full(name)) : *find(row.single);
    const std::int64_t key = spec_.plain_dim, value = spec_.value_dim;
    FoundTensor found = of(row, tensor);
    if (own)
      require_shape(row, tensor, h_.heads * found.rows, found.cols);
    else
      require_shape(row, tensor, h_.heads * (key + value), spec_.latent_rank);
    found.transposed = !own && row.role == TensorRole::kKeyUp;
    const Interval heads = shard_.rows(Extent::kHeads);
    for (std::int64_t head = heads.begin; head < heads.end; ++head) {
      const std::int64_t before = own ? head * found.rows : head * (key + value) + (found.transposed ? 0 : key);
      found.copy = head - heads.begin;
      found.begin = static_cast<std::size_t>(before) * found.row_bytes();
      found_.push_back(found);
    }
  }

  void require_shape(const TensorRow& row, const gguf::Tensor& t, std::int64_t rows, std::int64_t cols) const {
    if (t.integer_bytes > 0) throw ModelError(fmt::format("{}: tensor {} is of whole numbers, not of weights", file_.name(), t.name));
    const bool floats = (is_vector(row) && row.role != TensorRole::kNgramTaps) || (row.rows == Extent::kExperts && row.optional);  // biases
    if (floats && t.type != TensorType::F32) throw ModelError(fmt::format("{}: tensor {} is not F32", file_.name(), t.name));
    if (is_vector(row)) {
      if (t.cols() * t.rows() != cols)
        throw ModelError(fmt::format("{}: tensor {} has {} values, not {}", file_.name(), t.name, t.cols() * t.rows(), cols));
      if (row.role == TensorRole::kNgramTaps && t.cols() != whole_.ngrams.taps)
        throw ModelError(fmt::format("{}: tensor {} has {} taps, not {}", file_.name(), t.name, t.cols(), whole_.ngrams.taps));
    } else if (t.cols() != cols || t.rows() != rows) {
      throw ModelError(
          fmt::format("{}: tensor {} is {} x {}, the metadata asks for {} x {}", file_.name(), t.name, t.rows(), t.cols(), rows, cols));
    }
  }

  const gguf::File& file_;
  const Hyperparameters& whole_;
  const Shard& whole_shard_;
  Hyperparameters h_;  // of the layer
  Shard shard_;
  LayerSpec spec_;
  std::int64_t layer_ = -1;
  std::vector<FoundTensor> found_;
};

}  // namespace

std::size_t FoundTensor::held_bytes() const {
  if (transposed) return static_cast<std::size_t>(rows * cols) * sizeof(float);
  const bool packed = rows > 1 && !is_looked_up(role) && cpu::has_panels(tensor->type);
  return packed ? static_cast<std::size_t>(here.count()) * cpu::packed_row_bytes(tensor->type, row_bytes()) : bytes().size();
}

std::vector<FoundTensor> find_tensors(const gguf::File& file, const Hyperparameters& h, LayerRange range, const Shard& shard) {
  Finder finder(file, h, shard);
  if (range.begin == 0) finder.add(Holder::kFirstStage);
  for (std::int64_t layer = range.begin; layer < range.end; ++layer) finder.add(Holder::kLayer, layer);
  if (range.end == h.layers) finder.add(Holder::kLastStage);
  finder.add(Holder::kEveryStage);
  return finder.take();
}

namespace {

/// The transposed matrix: its columns are rows in the file.
std::unique_ptr<float[]> transpose(const FoundTensor& found) {
  auto matrix = std::make_unique_for_overwrite<float[]>(static_cast<std::size_t>(found.rows * found.cols));
  std::vector<float> column(static_cast<std::size_t>(found.rows));
  for (std::int64_t c = 0; c < found.cols; ++c) {
    cpu::dequantize(found.tensor->type, found.bytes().data() + static_cast<std::size_t>(c) * found.row_bytes(), found.rows, column.data());
    for (std::int64_t r = 0; r < found.rows; ++r)
      matrix[static_cast<std::size_t>(r * found.cols + c)] = column[static_cast<std::size_t>(r)];
  }
  return matrix;
}

/// A vector of another type, as floats.
std::unique_ptr<float[]> widened(const FoundTensor& found) {
  auto floats = std::make_unique_for_overwrite<float[]>(static_cast<std::size_t>(found.cols));
  cpu::dequantize(found.tensor->type, found.tensor->data, found.cols, floats.get());
  return floats;
}

}  // namespace

void WeightSet::put(const FoundTensor& found) {
  Matrix matrix{found.tensor->type, found.here.count(), found.cols, found.bytes().data(), found.row_bytes()};
  const bool widen = found.role == TensorRole::kNgramTaps && found.tensor->type != TensorType::F32;
  if (found.transposed || widen) {
    transposed_.push_back(widen ? widened(found) : transpose(found));
    matrix.type = TensorType::F32;
    matrix.data = reinterpret_cast<const std::byte*>(transposed_.back().get());
    matrix.row_bytes = static_cast<std::size_t>(found.cols) * sizeof(float);
  }
  if (found.scale) matrix.scale = reinterpret_cast<const float*>(found.scale->data) + std::max<std::int64_t>(0, found.copy);
  if (found.copy >= 0)
    copies_[found.role].push_back(matrix);
  else
    all_[static_cast<std::size_t>(found.role)] = matrix;
}

/// All matrices except vectors and embeddings, which are only looked up.
std::vector<Matrix*> WeightSet::factors() {
  std::vector<Matrix*> matrices;
  for (std::size_t role = 0; role < all_.size(); ++role) {
    const bool multiplied = all_[role].data != nullptr && all_[role].rows > 1 && !is_looked_up(static_cast<TensorRole>(role));
    if (multiplied) matrices.push_back(&all_[role]);
  }
  for (auto& [role, copies] : copies_) {
    for (Matrix& copy : copies) matrices.push_back(&copy);
  }
  return matrices;
}

void require_present(const gguf::File& file, const FoundTensor& found) {
  file.require_present(*found.tensor, found.bytes());
  if (found.scale) file.require_present(*found.scale, {found.scale->data, found.scale->bytes});
}

WeightSet StageWeights::find_rest(const gguf::File& file, const Hyperparameters& h, WeightUse use) {
  WeightSet rest;
  for (const FoundTensor& found : find_tensors(file, h, {0, h.layers})) {
    if (found.layer >= 0 || stays_in_file(found.role)) continue;
    if (use == WeightUse::kResult) require_present(file, found);
    rest.put(found);
  }
  return rest;
}

StageWeights StageWeights::find(const gguf::File& file, const Hyperparameters& h, LayerRange range, const Shard& shard, WeightUse use) {
  StageWeights w;
  for (std::int64_t layer = range.begin; layer < range.end; ++layer) {
    w.specs.push_back(h.layer_at(layer));
  }
  w.layers.resize(w.specs.size());
  for (const FoundTensor& found : find_tensors(file, h, range, shard)) {
    if (use == WeightUse::kResult) require_present(file, found);
    (found.layer < 0 ? w.rest : w.layers[static_cast<std::size_t>(found.layer - range.begin)]).put(found);
  }
  return w;
}

std::vector<Matrix*> StageWeights::factors() { return factors({0, std::ssize(layers)}); }

std::vector<Matrix*> StageWeights::factors(LayerRange of) {
  std::vector<Matrix*> all;
  for (std::int64_t layer = of.begin; layer < of.end; ++layer)
    std::ranges::copy(layers[static_cast<std::size_t>(layer)].factors(), std::back_inserter(all));
  if (of.end == std::ssize(layers)) std::ranges::copy(rest.factors(), std::back_inserter(all));
  return all;
}

std::vector<std::span<const std::byte>> stage_tensors(const gguf::File& file, const Hyperparameters& h, LayerRange range,
                                                      const Shard& shard, bool experts) {
  std::vector<std::span<const std::byte>> tensors, scales;
  const gguf::Tensor* embedding = nullptr;
  for (const FoundTensor& found : find_tensors(file, h, range, shard)) {
    if ((found.of_expert && !experts) || found.transposed || stays_in_file(found.role)) continue;
    const std::span<const std::byte> bytes = found.bytes();
    if (found.scale && found.copy <= 0) scales.push_back({found.scale->data, found.scale->bytes});
    if (found.role == TensorRole::kEmbedding) embedding = found.tensor;
    if (found.role == TensorRole::kOutput && found.tensor == embedding) continue;  // the same bytes are in the list already
    std::span<const std::byte>* before = tensors.empty() ? nullptr : &tensors.back();
    if (before && before->data() + before->size() == bytes.data() && found.copy > 0)
      *before = {before->data(), before->size() + bytes.size()};  // consecutive: copies of a matrix within one tensor
    else
      tensors.push_back(bytes);
  }
  tensors.insert(tensors.end(), scales.begin(), scales.end());
  return tensors;
}

std::size_t stage_bytes(const gguf::File& file, const Hyperparameters& h, LayerRange range, const Shard& shard) {
  std::size_t bytes = 0;
  const gguf::Tensor* embedding = nullptr;
  for (const FoundTensor& found : find_tensors(file, h, range, shard)) {
    if (found.role == TensorRole::kEmbedding) embedding = found.tensor;
    const bool again = found.role == TensorRole::kOutput && found.tensor == embedding;
    if (!again && !stays_in_file(found.role)) bytes += found.held_bytes();
  }
  return bytes;
}

std::size_t in_file_bytes(const gguf::File& file, const Hyperparameters& h, LayerRange range, const Shard& shard) {
  std::size_t bytes = 0;
  for (const FoundTensor& found : find_tensors(file, h, range, shard)) bytes += stays_in_file(found.role) ? found.held_bytes() : 0;
  return bytes;
}

std::size_t layer_bytes(const gguf::File& file, const Hyperparameters& h, std::int64_t layer, const Shard& shard) {
  Finder finder(file, h, shard);
  finder.add(Holder::kLayer, layer);
  std::size_t bytes = 0;
  for (const FoundTensor& found : finder.take()) {
    if (!found.of_expert || found.copy < h.layer.experts_used) bytes += found.held_bytes();
  }
  return bytes;
}

std::size_t read_bytes(const gguf::File& file, const Hyperparameters& h, LayerRange range, const Shard& shard) {
  std::size_t bytes = 0;
  for (std::int64_t layer = range.begin; layer < range.end; ++layer) bytes += layer_bytes(file, h, layer, shard);
  if (range.end < h.layers) return bytes;
  Finder finder(file, h, shard);
  finder.add(Holder::kLastStage);
  for (const FoundTensor& found : finder.take()) bytes += found.role == TensorRole::kOutput ? found.held_bytes() : 0;
  return bytes;
}

}  // namespace yamata
