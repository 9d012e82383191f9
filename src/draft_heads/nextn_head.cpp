#include "src/draft_heads/nextn_head.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "node/error.hpp"

namespace yamata::draft_heads {
namespace {

/// The layer after the target's last, as a stage of its own.
LayerRange range_of(const ModelFile& target) { return {target.h.layers, target.h.layers + 1}; }

/// The tensors of the layer beside those of a layer of the target.
constexpr const char* kNextnTensors[] = {"eh_proj", "enorm", "hnorm", "shared_head_norm", "shared_head_head", "embed_tokens"};

/// Throws ModelError with the first tensor of the layer that no code reads.
void require_all_read(const gguf::File& file, const ModelFile& target) {
  const std::string layer = fmt::format("blk.{}.", target.h.layers);
  std::set<std::string> read;
  for (const char* name : kNextnTensors) read.insert(fmt::format("{}nextn.{}.weight", layer, name));
  for (const FoundTensor& found : find_tensors(file, target.h, range_of(target))) {
    read.insert(found.tensor->name);
    if (found.scale) read.insert(found.scale->name);
  }
  for (const gguf::Tensor& tensor : file.tensors()) {
    const bool of_index = target.h.is_sparse() && tensor.name.starts_with(layer + "indexer.");  // here all tokens are attended to
    if (tensor.name.starts_with(layer) && !read.contains(tensor.name) && !of_index)
      throw ModelError(
          fmt::format("{}: tensor {} is not supported; without it, the layer would give other guesses", file.name(), tensor.name));
  }
}

Matrix matrix_of(const TensorView& tensor) { return {tensor.type, tensor.rows, tensor.cols, tensor.data, tensor.row_bytes}; }

}  // namespace

bool has_nextn_names(const TensorViews& tensors) {
  return std::ranges::any_of(tensors.names(), [](const std::string& name) { return name.find(".nextn.") != std::string::npos; });
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
  if (target.h.layer.streams > 0) refuse("a multi-token prediction layer of a model with hyper-connections is not supported");
  if (target.h.layer.alone) refuse("a multi-token prediction layer of a model with one block a layer is not supported");
  if (target.h.layer.window > 0) refuse("a multi-token prediction layer of a model with sliding windows is not supported");
  if (target.h.layer.query_scale != 0) refuse("a multi-token prediction layer of a model that scales queries is not supported");
  const auto name = [&](const char* tensor) { return fmt::format("blk.{}.nextn.{}.weight", target.h.layers, tensor); };
  NextnTensors found;
  found.projection = &tensors.get(name("eh_proj"), dim, 2 * dim);
  found.embedding_norm = &tensors.vector(name("enorm"), dim);
  found.hidden_norm = &tensors.vector(name("hnorm"), dim);
  found.norm = tensors.find(name("shared_head_norm"), 1, dim);
  found.output = tensors.find(name("shared_head_head"), vocabulary, dim);
  found.embedding = tensors.find(name("embed_tokens"), vocabulary, dim);
  require_all_read(*all.gguf(), target);
  return found;
}

Needs nextn_needs(const CheckedTensors& tensors, const ContextOptions& context) {
  const NextnTensors found = NextnTensors::find(tensors);
  const ModelFile& target = tensors.target();
  const Hyperparameters& h = target.h;
  const gguf::File& file = *tensors.all().gguf();
  const Shard all(h);
  const Matrix target_output = StageWeights::find_rest(target.file, h, WeightUse::kTime).matrix(TensorRole::kOutput);
  const std::uint64_t beside = matrix_of(*found.projection).bytes() + (found.output ? matrix_of(*found.output) : target_output).bytes();
  const auto floats = static_cast<std::uint64_t>(StageBuffers::of(h, range_of(target), all).floats(1, 0) + 8 * h.dim + h.vocabulary);
  return {
      .feature_layers = {kOutputFeatures},
      .weight_bytes = beside + stage_bytes(file, h, range_of(target), all),
      .evaluation_bytes = beside + layer_bytes(file, h, h.layers, all),
      .cache_per_cell = KvStore::bytes_for(all.cache_shape(1), 1, context.cache_types) + sizeof(float) * static_cast<std::uint64_t>(h.dim),
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
      hidden_(context.cells, target_.h.dim),
      embedded_(unit),
      given_(unit),
      pair_(unit),
      left_(unit),
      chosen_(unit),
      outputs_(unit) {
  take_weights(NextnTensors::find(tensors), *tensors.all().gguf());
  for (int head = 0; head < shard_.kv_heads(); ++head) {
    cache_k_.push_back(store_.k(0, head));
    cache_v_.push_back(store_.v(0, head));
  }
}

void NextnHead::take_weights(const NextnTensors& from, const gguf::File& file) {
  for (const TensorView* tensor : {from.projection, from.embedding_norm, from.hidden_norm, from.norm, from.output, from.embedding}) {
    if (const gguf::Tensor* own = tensor ? file.find(tensor->name) : nullptr) file.require_present(*own, {own->data, own->bytes});
  }
  for (Matrix* matrix : block_.layers.front().factors()) weights_.adopt(*matrix);
  projection_ = weights_.foreign(matrix_of(*from.projection));
  output_ = weights_.foreign(from.output ? matrix_of(*from.output) : target_output());
  embedding_ = from.embedding ? matrix_of(*from.embedding) : target_embedding();
  embedding_norm_ = weights_.vector(*from.embedding_norm);
  hidden_norm_ = weights_.vector(*from.hidden_norm);
  norm_ = from.norm ? weights_.vector(*from.norm) : target_norm();
}

/// Sets up the buffers of the run's rows, and the cells that they see.
void NextnHead::place(const StageBatch& batch) {
  hidden_.keep(left_.data(), batch_cells_.cells());
  tokens_.assign(batch.tokens.begin(), batch.tokens.end());
  logit_rows_.assign(batch.logit_rows.begin(), batch.logit_rows.end());
  rows_ = static_cast<std::int64_t>(tokens_.size());
  buffers_.reserve(sizes_, rows_, 0);
  const auto rows = static_cast<std::size_t>(rows_ * width()), chosen = logit_rows_.size();
  for (FloatBuffer* buffer : {&embedded_, &given_, &left_}) buffer->reserve(rows);
  pair_.reserve(2 * rows);
  chosen_.reserve(chosen * static_cast<std::size_t>(width()));
  outputs_.reserve(chosen * static_cast<std::size_t>(vocabulary()));
  visible_.clear();
  for (std::size_t row = 0; row < tokens_.size(); ++row) {
    visible_.push_back(batch_cells_.visible(row));
    rope_.angles(batch.placements[row].position, buffers_.angles.data() + row * static_cast<std::size_t>(target_.h.rotary_dim));
  }
}

void NextnHead::add_norm(const float* x, const float* weight, float* out, std::int64_t out_stride) {
  ops_.push_back(NormOp{.x = x,
                        .rows = rows_,
                        .cols = width(),
                        .x_stride = width(),
                        .weight = weight,
                        .epsilon = target_.h.epsilon,
                        .out = out,
                        .out_cols = width(),
                        .out_stride = out_stride});
}

void NextnHead::build(const StageBatch& batch) {
  place(batch);
  give_hidden(batch, hidden_, given_.data());
  ops_.push_back(EmbedOp{&embedding_, tokens_, embedded_.data(), target_.h.embedding_scale});
  add_norm(embedded_.data(), embedding_norm_, pair_.data(), 2 * width());
  add_norm(given_.data(), hidden_norm_, pair_.data() + width(), 2 * width());
  LinearOp projection{.x = pair_.data(), .rows = rows_, .cols = 2 * width(), .parts = {}, .add = false};
  projection.parts[0] = {projection_, buffers_.x.data()};
  ops_.push_back(projection);
  if (target_.h.is_latent()) layer_ops_.number_heads(rows_);
  const LayerCache cache{.k = cache_k_.data(),
                         .v = cache_v_.data(),
                         .k_type = tensor_type(store_.types().k),
                         .v_type = tensor_type(store_.types().v),
                         .cells = batch_cells_.cells().data(),
                         .visible = visible_.data(),
                         .angles = buffers_.angles.data()};
  layer_ops_.add_layer(block_.specs.front(), block_.layers.front(), cache, rows_, true);
  add_norm(buffers_.x.data(), norm_, left_.data(), width());
  if (logit_rows_.empty()) return;
  ops_.push_back(GatherOp{left_.data(), width(), logit_rows_, chosen_.data()});
  LinearOp output{.x = chosen_.data(), .rows = std::ssize(logit_rows_), .cols = width(), .parts = {}, .add = false};
  output.parts[0] = {output_, outputs_.data()};
  ops_.push_back(output);
}

std::span<const float> NextnHead::logits() const { return {outputs_.data(), logit_rows_.size() * static_cast<std::size_t>(vocabulary())}; }

}  // namespace yamata::draft_heads
