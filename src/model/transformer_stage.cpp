#include "src/model/transformer_stage.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "node/counted.hpp"
#include "node/error.hpp"
#include "src/model/packing.hpp"

namespace yamata {
namespace {

std::vector<std::int32_t> cells_of_layers(std::span<const LayerSpec> specs, const ContextOptions& options) {
  std::vector<std::int32_t> cells;
  for (const LayerSpec& spec : specs)
    cells.push_back(spec.recurrent ? 0 : spec.window > 0 && options.window_cells > 0 ? options.window_cells : options.cells);
  return cells;
}

StateCounts state_counts(const ContextOptions& options) {
  return {options.window_cells > 0 ? options.window_cells : options.cells, StateCells::kStates + options.kept_states};
}

}  // namespace

TransformerStage::TransformerStage(const gguf::File& file, const Hyperparameters& h, LayerRange range, const ContextOptions& options,
                                   ComputeUnit& unit)
    : file_(file),
      h_(h),
      range_(range),
      shard_(h, options.group.shares, options.group.member),
      exchange_(options.group.exchange),
      weights_(StageWeights::find(file, h, range, shard_)),
      sizes_(StageBuffers::of(h, range, shard_)),
      cells_(options.cells, options.sequences),
      unit_(unit),
      buffers_(unit, first() && last()),
      features_(unit),
      feature_inputs_(unit),
      layer_ops_(h_, shard_, exchange_, buffers_, ops_) {
  if (options.window_cells > 0 && windowed_layers(h, range) > 0)
    window_cells_.emplace(options.cells, options.window_cells, static_cast<std::int32_t>(h.layer.window));
  if (recurrent_layers(h, range) > 0) {
    state_cells_.emplace(options.cells, state_counts(options));
    const auto last = std::ranges::find(weights_.specs.rbegin(), weights_.specs.rend(), true, &LayerSpec::recurrent);
    last_state_layer_ = static_cast<std::size_t>(weights_.specs.rend() - last) - 1;
  }
  const float* factors = rope_factors(options.context > 0 ? options.context : options.cells);
  ropes_.emplace_back(h, h.mixes_windows() ? h.with_window(false) : h.layer_at(0), factors);
  if (h.mixes_windows()) ropes_.emplace_back(h, h.with_window(true), factors);
  share_out(options);
}

/// Assigns layers to each unit, with their part of the cache.
void TransformerStage::share_out(const ContextOptions& options) {
  const std::int64_t first =
      &unit_.first_unit() == &unit_.rest_unit() ? 0 : std::clamp<std::int64_t>(options.first_layers, 0, range_.count());
  if (first > 0) units_.push_back({&unit_.first_unit(), {range_.begin, range_.begin + first}, options.pack || options.pack_first});
  if (first < range_.count()) units_.push_back({&unit_.rest_unit(), {range_.begin + first, range_.end}, options.pack});
  const std::vector<std::int32_t> cells = cells_of_layers(weights_.specs, options);
  for (UnitLayers& part : units_) {
    // If experts are not packed, those that are never chosen stay on disk.
    part.tensors = stage_tensors(file_, h_, part.range, shard_, part.packs);
    part.all_tensors = stage_tensors(file_, h_, part.range, shard_, true);
    const auto begin = cells.begin() + (part.range.begin - range_.begin);
    part.cache = std::make_unique<KvStore>(*part.unit, shard_.cache_shape(part.range.count()),
                                           std::vector<std::int32_t>(begin, begin + part.range.count()), options.cache_types);
    share_states(part, state_counts(options));
    for (int layer = 0; layer < part.range.count(); ++layer) {
      for (int head = 0; head < shard_.kv_heads(); ++head) {
        cache_k_.push_back(part.cache->k(layer, head));
        cache_v_.push_back(part.cache->v(layer, head));
      }
    }
  }
}

/// Memory for the states of a unit's layers.
void TransformerStage::share_states(UnitLayers& part, StateCounts counts) {
  const std::int64_t layers = recurrent_layers(h_, part.range);
  if (layers > 0) part.states = std::make_unique<StateStore>(*part.unit, shard_.state(), layers, counts);
  std::int64_t before = 0;
  for (std::int64_t layer = part.range.begin; layer < part.range.end; ++layer)
    states_.push_back(h_.layer_at(layer).recurrent ? part.states->layer(before++) : StateMemory{});
}

void TransformerStage::touch_cache() {
  for (const UnitLayers& part : units_) {
    part.cache->touch();
    if (part.states) part.states->touch();
  }
}

/// "cuda:0 (10 layers)+cpu (12 layers)" if several units have layers of their own.
std::string TransformerStage::device() const {
  if (units_.size() == 1) return units_.front().unit->device();
  std::string names;
  for (const UnitLayers& part : units_)
    names += fmt::format("{}{} ({})", names.empty() ? "" : "+", part.unit->device(), counted(part.range.count(), "layer"));
  return names;
}

TransformerStage::~TransformerStage() {
  if (!unit_.finished()) abandon_group();
  while (!unit_.finished()) {
    try {
      unit_.wait_for(std::chrono::seconds(1));
    } catch (...) {  // an error in a run whose results will not be read
    }
  }
}

/// RoPE factors of pairs for this context length; null: none.
const float* TransformerStage::rope_factors(std::int64_t context) const {
  using enum TensorRole;
  if (h_.rope.kind != RopeScaling::Kind::kLong) return weights_.rest.vector(kRopeFactors);
  return weights_.rest.vector(context > h_.rope.original_context ? kLongRopeFactors : kShortRopeFactors);
}

/// Allocates memory for the weights that a unit packs. Packing is the first part of the load.
void TransformerStage::pack(UnitLayers& part) {
  const std::vector<Matrix*> matrices = weights_.factors({part.range.begin - range_.begin, part.range.end - range_.begin});
  part.packed = set_aside_packed(*part.unit, matrices, ops_, "weights", "give it fewer layers");
  for (const Matrix* m : matrices) {
    if (!m->packed) continue;
    std::erase_if(part.tensors, [&](const auto& tensor) {
      return tensor.data() == m->data && weights_.rest.matrix(TensorRole::kEmbedding).data != m->data;
    });
  }
}

void TransformerStage::load(const std::atomic<bool>* stop) {
  constexpr std::size_t kStep = 16u << 20;
  ops_.clear(), parts_.clear();
  file_is_read_ = file_is_read_ || std::ranges::all_of(units_, &UnitLayers::packs);
  for (UnitLayers& part : units_) {
    if (std::exchange(part.packs, false)) pack(part);
    for (const auto& tensor : part.tensors) {
      for (std::size_t at = 0; at < tensor.size(); at += kStep)
        ops_.push_back(ReadOp{tensor.subspan(at, std::min(kStep, tensor.size() - at))});
    }
    for (const auto& tensor : part.all_tensors) ops_.push_back(ReadOp{tensor, {0, 0}});
    parts_.push_back({part.unit, ops_.size()});
  }
  load_steps_ = ops_.size();
  unit_.start_parts(ops_, parts_, stop);
}

void TransformerStage::start(const StageBatch& batch, const std::atomic<bool>* stop) {
  if (std::exchange(file_is_read_, false)) file_.release_pages();
  rows_ = batch.placements.size();
  logit_rows_.assign(batch.logit_rows.begin(), batch.logit_rows.end());
  only_highest_ = batch.only_highest && last() && !logit_rows_.empty() && logit_tokens().count() > 0;
  begin_features(batch);
  buffers_.reserve(sizes_, static_cast<std::int64_t>(rows_), last() ? std::ssize(logit_rows_) : 0);
  place(batch);
  build(batch);
  unit_.start_parts(ops_, parts_, stop);
}

void TransformerStage::place(const StageBatch& batch) {
  window_cells_ ? window_cells_->place(cells_, batch.placements, batch_cells_, window_batch_)
                : cells_.place(batch.placements, batch_cells_);
  if (state_cells_) state_plan_ = &state_cells_->plan(cells_, batch.placements, batch_cells_);
  visible_.clear();
  in_window_.clear();
  const auto width = static_cast<std::size_t>(h_.rotary_dim), window = static_cast<std::size_t>(h_.layer.window);
  for (std::size_t i = 0; i < rows_; ++i) {
    visible_.push_back(batch_cells_.visible(i));
    const std::span<const CellId> near = window_cells_ ? window_batch_.visible(i) : visible_[i];
    const auto position = static_cast<std::size_t>(batch.placements[i].position);
    const std::size_t seen = window == 0 ? near.size() : h_.chunked ? position % window + 1 : window;
    in_window_.push_back(near.last(std::min(seen, near.size())));
    if (sizes_.query_scales > 0) buffers_.query_scales.data()[i] = h_.query_scale_at(batch.placements[i].position);
    for (std::size_t rope = 0; rope < ropes_.size(); ++rope)
      ropes_[rope].angles(batch.placements[i].position, buffers_.angles.data() + (rope * rows_ + i) * width);
  }
}

LayerCache TransformerStage::cache_of(std::size_t layer) {
  const bool windowed = weights_.specs[layer].window > 0;
  const std::size_t head = layer * static_cast<std::size_t>(shard_.kv_heads());
  const std::size_t rope = windowed ? ropes_.size() - 1 : 0;
  return {.k = cache_k_.data() + head,
          .v = cache_v_.data() + head,
          .k_type = tensor_type(units_.front().cache->types().k),
          .v_type = tensor_type(units_.front().cache->types().v),
          .cells = (windowed && window_cells_ ? window_batch_ : batch_cells_).cells().data(),
          .visible = windowed ? in_window_.data() : visible_.data(),
          .angles = buffers_.angles.data() + rope * rows_ * static_cast<std::size_t>(h_.rotary_dim),
          .query_scales = buffers_.query_scales.data(),
          .plan = state_plan_,
          .states = states_[layer],
          .finished = state_cells_ && layer == last_state_layer_ ? state_cells_->written() : nullptr};
}

void TransformerStage::build(const StageBatch& batch) {
  ops_.clear(), parts_.clear();
  const auto rows = static_cast<std::int64_t>(rows_);
  float* x = buffers_.x.data();
  if (first()) {
    ops_.push_back(EmbedOp{&weights_.rest.matrix(TensorRole::kEmbedding), batch.tokens, x, h_.embedding_scale});
  } else {
    std::copy(batch.activations.begin(), batch.activations.end(), x);
  }
  if (h_.is_latent()) layer_ops_.number_heads(rows);
  for (std::size_t layer = 0; layer < weights_.layers.size(); ++layer) {
    const UnitLayers& part = units_[parts_.size()];
    if (range_.begin + static_cast<std::int64_t>(layer) == part.range.end) parts_.push_back({part.unit, ops_.size()});
    build_layer_features(layer);
    layer_ops_.add_layer(weights_.specs[layer], weights_.layers[layer], cache_of(layer), rows, layer == 0 && !keeps_columns_);
  }
  if (!last() && !shard_.whole() && !keeps_columns_) ops_.push_back(AllGatherOp{x, rows, h_.dim, layer_ops_.shared(shard_.residual())});
  if (last() && !logit_rows_.empty()) {
    ops_.push_back(GatherOp{x, h_.dim, logit_rows_, buffers_.chosen.data()});
    layer_ops_.add_logits(weights_.rest, buffers_.chosen.data(), std::ssize(logit_rows_));
    if (only_highest_) build_highest();
  }
  build_output_features();
  parts_.push_back({units_.back().unit, ops_.size()});
}

std::size_t TransformerStage::buffer_bytes() const { return buffers_.floats() * sizeof(float); }

void TransformerStage::begin_features(const StageBatch& batch) {
  feature_rows_.assign(batch.feature_rows.begin(), batch.feature_rows.end());
  feature_layers_.clear();
  features_built_ = 0;
  if (feature_rows_.empty()) return;
  for (const std::int32_t layer : batch.feature_layers) {
    if (layer == kOutputFeatures ? last() : layer >= range_.begin && layer < range_.end) feature_layers_.push_back(layer);
  }
  const std::size_t floats = feature_rows_.size() * static_cast<std::size_t>(h_.dim);
  features_.reserve(feature_layers_.size() * floats);
  if (!feature_layers_.empty() && feature_layers_.back() == kOutputFeatures) feature_inputs_.reserve(floats);
}

/// The place of the next feature layer; they are built in ascending order.
float* TransformerStage::add_features() {
  return features_.data() + features_built_++ * feature_rows_.size() * static_cast<std::size_t>(h_.dim);
}

/// Adds the input of a layer as features, if it is requested. The input of the first layer here has all columns.
void TransformerStage::build_layer_features(std::size_t layer) {
  if (features_built_ == feature_layers_.size() || feature_layers_[features_built_] != range_.begin + static_cast<std::int64_t>(layer))
    return;
  float* const features = add_features();
  const auto rows = static_cast<std::int64_t>(feature_rows_.size());
  ops_.push_back(GatherOp{buffers_.x.data(), h_.dim, feature_rows_, features});
  if (layer > 0 && !shard_.whole()) ops_.push_back(AllGatherOp{features, rows, h_.dim, layer_ops_.shared(shard_.residual())});
}

void TransformerStage::build_output_features() {
  if (features_built_ == feature_layers_.size()) return;
  const auto rows = static_cast<std::int64_t>(feature_rows_.size());
  ops_.push_back(GatherOp{buffers_.x.data(), h_.dim, feature_rows_, feature_inputs_.data()});
  if (!shard_.whole()) ops_.push_back(AllGatherOp{feature_inputs_.data(), rows, h_.dim, layer_ops_.shared(shard_.residual())});
  layer_ops_.add_output_norm(weights_.rest, feature_inputs_.data(), rows, true, add_features());
}

void TransformerStage::build_highest() {
  auto* const out = reinterpret_cast<Highest*>(buffers_.highest.data());
  std::fill_n(out, kMaxUnits * logit_rows_.size(), Highest{});
  ops_.push_back(HighestOp{
      .x = buffers_.logits.data(), .rows = std::ssize(logit_rows_), .cols = logit_tokens().count(), .out = out, .only_reader = true});
}

/// The units' columns ascend, so that of equal ones the first stays.
std::vector<Highest> TransformerStage::highest() const {
  std::vector<Highest> rows(only_highest_ ? logit_rows_.size() : 0);
  const auto* found = reinterpret_cast<const Highest*>(buffers_.highest.data());
  for (int unit = 0; unit < kMaxUnits; ++unit) {
    for (Highest& row : rows) {
      if (found->value > row.value) row = *found;
      ++found;
    }
  }
  return rows;
}

std::span<const float> TransformerStage::features() const {
  return {features_.data(), feature_layers_.size() * feature_rows_.size() * static_cast<std::size_t>(h_.dim)};
}

std::span<const float> TransformerStage::activations() const { return {buffers_.x.data(), rows_ * static_cast<std::size_t>(h_.dim)}; }

std::span<const float> TransformerStage::logits() const {
  return {buffers_.logits.data(), logit_rows_.size() * static_cast<std::size_t>(logit_tokens().count())};
}

}  // namespace yamata
