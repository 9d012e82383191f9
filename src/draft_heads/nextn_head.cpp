#include "src/draft_heads/nextn_head.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "node/error.hpp"

namespace yamata::draft_heads {
namespace {

/// The layer after the target's last, as a stage of its own.
LayerRange range_of(const ModelFile& target) { return {target.h.layers, target.h.layers + 1}; }

/// Throws ModelError with the first tensor of the layer that no code reads. `beside`: those beside the tensors of a layer of the target.
void require_all_read(const gguf::File& file, const ModelFile& target, const NextnTensors& beside) {
  const std::string layer = fmt::format("blk.{}.", target.h.layers);
  std::set<std::string> read;
  for (const TensorView* tensor : beside.all()) read.insert(tensor->name);
  for (const FoundTensor& found : find_tensors(file, target.h, range_of(target))) {
    read.insert(found.tensor->name);
    if (found.scale) read.insert(found.scale->name);
  }
  const bool index = target.h.is_sparse() || target.h.layer.streams > 0;
  for (const gguf::Tensor& tensor : file.tensors()) {
    const bool of_index = index && tensor.name.starts_with(layer + "indexer.");  // here all tokens are attended to
    if (tensor.name.starts_with(layer) && !read.contains(tensor.name) && !of_index)
      throw ModelError(
          fmt::format("{}: tensor {} is not supported; without it, the layer would give other guesses", file.name(), tensor.name));
  }
}

Matrix matrix_of(const TensorView& tensor) { return {tensor.type, tensor.rows, tensor.cols, tensor.data, tensor.row_bytes}; }

/// What the layer reads of the target: its hidden state after the output norm, or the streams before their mix.
std::vector<std::int32_t> layers_read(const Hyperparameters& h) {
  if (h.layer.streams == 0) return {kOutputFeatures};
  std::vector<std::int32_t> streams;
  for (std::int64_t i = 0; i < h.layer.streams; ++i) streams.push_back(kStreamFeatures + static_cast<std::int32_t>(i));
  return streams;
}

}  // namespace

bool has_nextn_names(const TensorViews& tensors) {
  return std::ranges::any_of(tensors.names(), [](const std::string& name) { return name.find(".nextn.") != std::string::npos; });
}

std::vector<const TensorView*> NextnTensors::all() const {
  std::vector<const TensorView*> all{projection, embedding_norm, hidden_norm, norm, mix_norm, mix_down, mix_up, output, embedding};
  std::erase(all, nullptr);
  return all;
}

NextnTensors NextnTensors::find(const CheckedTensors& tensors) {
  const TensorViews& all = tensors.all();
  const ModelFile& target = tensors.target();
  const std::int64_t dim = target.h.dim, vocabulary = target.h.vocabulary;
  const auto refuse = [&](const std::string& what) { throw ModelError(fmt::format("{}: {}", all.path(), what)); };
  if (!all.gguf()) refuse("multi-token prediction layers are read only from GGUF files; convert it");
  if (!has_nextn_names(all)) {
    const bool own = all.gguf() == &target.file;
    refuse(fmt::format("it has no multi-token prediction layer (tensors nextn.*); {}",
                       own ? "leave --mtp out" : "give a file that has one with --heads"));
  }
  if (const auto family = all.gguf()->string("general.architecture"); family != target.h.family->name) {
    refuse(fmt::format("its layer is one of '{}', and {} is of '{}'; are these heads another model's?", family.value_or(""),
                       target.file.name(), target.h.family->name));
  }
  if (target.h.output_norm() != NormKind::kRms) refuse("a multi-token prediction layer with LayerNorm is not supported");
  if (target.h.layer.alone) refuse("a multi-token prediction layer of a model with one block a layer is not supported");
  if (target.h.layer.window > 0) refuse("a multi-token prediction layer of a model with sliding windows is not supported");
  if (target.h.layer.query_scale != 0) refuse("a multi-token prediction layer of a model that scales queries is not supported");
  const auto name = [&](const char* tensor) { return fmt::format("blk.{}.nextn.{}.weight", target.h.layers, tensor); };
  NextnTensors found;
  found.projection = &tensors.get(name("eh_proj"), dim, 2 * dim);
  found.embedding_norm = &tensors.vector(name("enorm"), dim);
  const std::int64_t all_streams = target.h.residual_dim(), rank = target.h.layer.stream_rank;
  found.hidden_norm = &tensors.vector(name("hnorm"), all_streams);
  if (target.h.layer.streams > 0) {
    found.mix_norm = &tensors.vector(name("hc_head_norm"), all_streams);
    found.mix_down = &tensors.get(name("hc_head_down"), rank, all_streams);
    found.mix_up = &tensors.get(name("hc_head_up"), all_streams, rank);
  } else {
    found.norm = tensors.find(name("shared_head_norm"), 1, dim);
  }
  found.output = tensors.find(name("shared_head_head"), vocabulary, dim);
  found.embedding = tensors.find(name("embed_tokens"), vocabulary, dim);
  require_all_read(*all.gguf(), target, found);
  return found;
}

Needs nextn_needs(const CheckedTensors& tensors, const ContextOptions& context) {
  const NextnTensors found = NextnTensors::find(tensors);
  const ModelFile& target = tensors.target();
  const Hyperparameters& h = target.h;
  const gguf::File& file = *tensors.all().gguf();
  const Shard all(h);
  const Matrix target_output = StageWeights::find_rest(target.file, h, WeightUse::kTime).matrix(TensorRole::kOutput);
  std::uint64_t beside = matrix_of(*found.projection).bytes() + (found.output ? matrix_of(*found.output) : target_output).bytes();
  if (found.mix_norm) beside += matrix_of(*found.mix_down).bytes() + matrix_of(*found.mix_up).bytes();
  const auto floats =
      static_cast<std::uint64_t>(StageBuffers::of(h, range_of(target), all).floats(1, 0) + 8 * h.residual_dim() + h.vocabulary);
  return {.feature_layers = layers_read(h),
          .weight_bytes = beside + stage_bytes(file, h, range_of(target), all),
          .evaluation_bytes = beside + layer_bytes(file, h, h.layers, all),
          .cache_per_cell =
              KvStore::bytes_for(all.cache_shape(1), 1, context.cache_types) + sizeof(float) * static_cast<std::uint64_t>(h.residual_dim()),
          .row_bytes = sizeof(float) * floats};
}

NextnHead::NextnHead(const CheckedTensors& tensors, const ContextOptions& context, ComputeUnit& unit)
    : DraftHeadsStage(tensors.target(), context, std::nullopt, unit),
      block_(StageWeights::find(*tensors.all().gguf(), target_.h, range_of(target_))),
      shard_(target_.h),
      sizes_(StageBuffers::of(target_.h, range_of(target_), shard_)),
      buffers_(unit, false),
      layer_ops_(target_.h, shard_, nullptr, buffers_, ops_),
      rope_(target_.h, block_.specs.front(), block_.rest.vector(TensorRole::kRopeFactors)),
      store_(unit, shard_.cache_shape(1), context.cells, context.cache_types),
      hidden_(context.cells, target_.h.residual_dim()),
      embedded_(unit),
      given_(unit),
      pair_(unit),
      left_(unit),
      chosen_(unit),
      mixed_(unit),
      outputs_(unit) {
  take_weights(NextnTensors::find(tensors), *tensors.all().gguf());
  for (int head = 0; head < shard_.kv_heads(); ++head) {
    cache_k_.push_back(store_.k(0, head));
    cache_v_.push_back(store_.v(0, head));
  }
}

void NextnHead::take_weights(const NextnTensors& from, const gguf::File& file) {
  for (const TensorView* tensor : from.all()) {
    if (const gguf::Tensor* own = file.find(tensor->name)) file.require_present(*own, {own->data, own->bytes});
  }
  for (Matrix* matrix : block_.layers.front().factors()) weights_.adopt(*matrix);
  projection_ = weights_.foreign(matrix_of(*from.projection));
  output_ = weights_.foreign(from.output ? matrix_of(*from.output) : target_output());
  embedding_ = from.embedding ? matrix_of(*from.embedding) : target_embedding();
  embedding_norm_ = weights_.vector(*from.embedding_norm);
  hidden_norm_ = weights_.vector(*from.hidden_norm);
  if (from.mix_norm)
    mix_ = {weights_.vector(*from.mix_norm), weights_.foreign(matrix_of(*from.mix_down)), weights_.foreign(matrix_of(*from.mix_up)),
            nullptr};
  else
    norm_ = from.norm ? weights_.vector(*from.norm) : target_norm();
}

/// Sets up the buffers of the run's rows, and the cells that they see.
void NextnHead::place(const StageBatch& batch) {
  hidden_.keep(left_.data(), batch_cells_.cells());
  tokens_.clear();
  for (const std::int32_t token : batch.tokens) tokens_.insert(tokens_.end(), static_cast<std::size_t>(streams()), token);
  logit_rows_.assign(batch.logit_rows.begin(), batch.logit_rows.end());
  rows_ = std::ssize(batch.tokens);
  buffers_.reserve(sizes_, rows_, 0);
  const auto floats = static_cast<std::size_t>(rows_ * features_read()), chosen = logit_rows_.size();
  for (FloatBuffer* buffer : {&embedded_, &given_, &left_}) buffer->reserve(floats);
  pair_.reserve(2 * floats);
  chosen_.reserve(chosen * static_cast<std::size_t>(features_read()));
  mixed_.reserve(streams() > 1 ? chosen * static_cast<std::size_t>(width()) : 0);
  outputs_.reserve(chosen * static_cast<std::size_t>(vocabulary()));
  visible_.clear();
  for (std::size_t row = 0; row < batch.tokens.size(); ++row) {
    visible_.push_back(batch_cells_.visible(row));
    rope_.angles(batch.placements[row].position, buffers_.angles.data() + row * static_cast<std::size_t>(target_.h.rotary_dim));
  }
}

/// Norms of every stream of every row.
void NextnHead::add_norm(const float* x, const float* weight, std::int64_t weight_rows, float* out, std::int64_t out_stride) {
  ops_.push_back(NormOp{.x = x,
                        .rows = rows_ * streams(),
                        .cols = width(),
                        .x_stride = width(),
                        .weight = weight,
                        .epsilon = target_.h.epsilon,
                        .out = out,
                        .out_cols = width(),
                        .out_stride = out_stride,
                        .weight_rows = weight_rows});
}

void NextnHead::build(const StageBatch& batch) {
  place(batch);
  give_hidden(batch, hidden_, given_.data());
  ops_.push_back(EmbedOp{&embedding_, tokens_, embedded_.data(), target_.h.embedding_scale});
  add_norm(embedded_.data(), embedding_norm_, 1, pair_.data(), 2 * width());
  add_norm(given_.data(), hidden_norm_, streams(), pair_.data() + width(), 2 * width());
  LinearOp projection{.x = pair_.data(), .rows = rows_ * streams(), .cols = 2 * width(), .parts = {}, .add = false};
  projection.parts[0] = {projection_, buffers_.x.data()};
  ops_.push_back(projection);
  if (target_.h.is_latent()) layer_ops_.number_heads(rows_);
  if (mix_.norm) layer_ops_.number_streams(rows_);
  const LayerCache cache{.k = cache_k_.data(),
                         .v = cache_v_.data(),
                         .k_type = tensor_type(store_.types().k),
                         .v_type = tensor_type(store_.types().v),
                         .cells = batch_cells_.cells().data(),
                         .visible = visible_.data(),
                         .angles = buffers_.angles.data()};
  layer_ops_.add_layer(block_.specs.front(), block_.layers.front(), cache, rows_, true);
  if (mix_.norm)
    ops_.push_back(ResizeOp{buffers_.x.data(), left_.data(), rows_, features_read(), features_read()});
  else
    add_norm(buffers_.x.data(), norm_, 1, left_.data(), width());
  if (!logit_rows_.empty()) add_output();
}

void NextnHead::add_output() {
  const std::int64_t rows = std::ssize(logit_rows_);
  ops_.push_back(GatherOp{left_.data(), features_read(), logit_rows_, chosen_.data()});
  if (mix_.norm) layer_ops_.add_mix(mix_, chosen_.data(), rows, mixed_.data());
  LinearOp output{.x = mix_.norm ? mixed_.data() : chosen_.data(), .rows = rows, .cols = width(), .parts = {}, .add = false};
  output.parts[0] = {output_, outputs_.data()};
  ops_.push_back(output);
}

std::span<const float> NextnHead::logits() const { return {outputs_.data(), logit_rows_.size() * static_cast<std::size_t>(vocabulary())}; }

}  // namespace yamata::draft_heads
