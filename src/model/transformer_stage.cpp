#include "src/model/transformer_stage.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "node/counted.hpp"
#include "node/error.hpp"
#include "src/model/packing.hpp"

namespace yamata {
namespace {

StateCounts state_counts(const ContextOptions& options) {
  return {options.window_cells > 0 ? options.window_cells : options.cells, StateCells::states(options.texts)};
}

std::int32_t reused_window(const Hyperparameters& h, const ContextOptions& options) {
  return options.window_cells > 0 && !h.is_recurrent() && windowed_layers(h, {0, h.layers}) > 0 ? static_cast<std::int32_t>(h.layer.window)
                                                                                                : 0;
}

}  // namespace

TransformerStage::TransformerStage(const gguf::File& file, const Hyperparameters& h, LayerRange range, const ContextOptions& options,
                                   ComputeUnit& unit)
    : file_(file),
      h_(h),
      range_(range),
      shard_(h, options.group.shares, options.group.member),
      exchange_(options.group.exchange),
      weights_(StageWeights::find(file, h, range, shard_, options.only_time ? WeightUse::kTime : WeightUse::kResult)),
      sizes_(StageBuffers::of(h, range, shard_)),
      shapes_(h, range, shard_),
      passed_in_(h, range.begin),
      passed_out_(h, range.end),
      cells_(options.cells, options.sequences),
      window_(reused_window(h, options)),
      unit_(unit),
      picked_(h.layer.picked, std::max<std::int64_t>(1, h.layer.index_block)),
      blocks_(h.layer.index_block),
      buffers_(unit, first() && last()),
      features_(unit),
      feature_inputs_(unit),
      layer_ops_(h_, shard_, exchange_, buffers_, ops_) {
  if (window_ > 0 && windowed_layers(h, range) > 0) window_cells_.emplace(options.cells, options.window_cells, window_, options.texts);
  if (recurrent_layers(h, range) > 0) {
    state_cells_.emplace(options.cells, state_counts(options).inputs, options.texts, static_cast<std::int32_t>(h.ngrams.kept()));
    const auto last = std::ranges::find(weights_.specs.rbegin(), weights_.specs.rend(), true, &LayerSpec::recurrent);
    last_state_layer_ = static_cast<std::size_t>(weights_.specs.rend() - last) - 1;
  }
  if (first() && h.ngrams.any()) ngrams_.emplace(h_.ngrams, options.cells);
  const float* factors = rope_factors(options.context > 0 ? options.context : options.cells);
  ropes_.emplace_back(h.of_window(false), h.mixes_windows() ? h.with_window(false) : h.layer_at(0), factors);
  const LayerSpec windowed = h.with_window(true);
  if (h.mixes_windows()) ropes_.emplace_back(h.of_window(true), windowed, windowed.rope_factors ? factors : nullptr);
  for (const LayerShape& shape : shapes_.all()) ops_of_.try_emplace(&shape, shape.h, shape.shard, exchange_, buffers_, ops_);
  share_out(options);
  share_passed();
  gather_layers();
}

/// Assigns layers to each unit, with their part of the cache.
void TransformerStage::share_out(const ContextOptions& options) {
  const bool apart = &unit_.first_unit() != &unit_.rest_unit() || options.copy_others;
  const std::int64_t first = apart ? std::clamp<std::int64_t>(options.first_layers, 0, range_.count()) : 0;
  if (first > 0) units_.push_back({&unit_.first_unit(), {range_.begin, range_.begin + first}, options.pack || options.pack_first});
  if (first < range_.count())
    units_.push_back({&unit_.rest_unit(), {range_.begin + first, range_.end}, options.pack || options.copy_others, options.copy_others});
  if (h_.first_shared > 0 && units_.size() > 1)
    throw ModelError(
        fmt::format("{}: layers that share keys and values cannot be divided among units by -ngl; leave it out", file_.name()));
  for (UnitLayers& part : units_) {
    // If experts are not packed, those that are never chosen stay on disk.
    part.tensors = stage_tensors(file_, h_, part.range, shard_, part.packs);
    part.all_tensors = stage_tensors(file_, h_, part.range, shard_, true);
    share_cache(part, options);
    const std::int64_t with_states = recurrent_layers(h_, part.range);
    if (with_states > 0) part.states = std::make_unique<StateStore>(*part.unit, shard_.state(), with_states, state_counts(options));
    if (h_.ngrams.layer < part.range.begin || h_.ngrams.layer >= part.range.end) continue;
    part.ngrams = std::make_unique<StateStore>(*part.unit, ngram_state(h_), 1, ngram_counts(h_, state_counts(options)));
    ngram_columns_ = part.ngrams->layer(0).columns;
  }
}

/// Memory for the keys and values that a unit's layers read.
void TransformerStage::share_cache(UnitLayers& part, const ContextOptions& options) {
  const std::vector<CachedLayer> layers = cached_layers(h_, part.range, shard_);
  std::vector<CacheLayer> in_store;
  for (const CachedLayer& cached : layers)
    in_store.push_back({cached.shape, cached.windowed && window_ > 0 ? options.window_cells : options.cells});
  for (const CachedLayer& cached : layers) in_store.push_back({cached.index, options.cells});
  part.cache = std::make_unique<KvStore>(*part.unit, in_store, options.cache_types);
  for (int i = 0; i < std::ssize(layers); ++i) {
    Cached& cached = cached_[layers[static_cast<std::size_t>(i)].layer];
    for (int head = 0; head < layers[static_cast<std::size_t>(i)].shape.kv_heads; ++head) {
      cached.k.push_back(part.cache->k(i, head));
      cached.v.push_back(part.cache->v(i, head));
    }
    if (layers[static_cast<std::size_t>(i)].index.kv_heads > 0)
      cached.index.push_back(part.cache->k(static_cast<int>(std::ssize(layers)) + i, 0));
  }
}

/// Places for keys and values from stages before this one, then for those that stages after it read.
void TransformerStage::share_passed() {
  std::int64_t floats = 0;
  for (const std::int64_t layer : shared_from_before(h_, range_)) {
    cached_.at(layer).passed = floats;
    floats += 2 * shapes_.of(layer).shard.rows(Extent::kKeys).count();
  }
  for (const PassedRows::Keys& keys : passed_out_.keys) {
    if (keys.layer < range_.begin) continue;
    cached_.at(keys.layer).passed = floats;
    floats += 2 * keys.floats;
  }
}

TransformerStage::Layer TransformerStage::layer_of(std::int64_t number) {
  const LayerShape& shape = shapes_.of(number);
  const auto find = [&](std::int64_t layer) {
    const auto found = cached_.find(layer);
    return found == cached_.end() ? nullptr : &found->second;
  };
  return {.spec = h_.layer_at(number),
          .shard = &shape.shard,
          .ops = &ops_of_.at(&shape),
          .cells = find(h_.cache_layer(number)),
          .own = find(number)};
}

void TransformerStage::gather_layers() {
  for (const UnitLayers& part : units_) {
    std::int64_t before = 0;
    for (std::int64_t number = part.range.begin; number < part.range.end; ++number) {
      Layer layer = layer_of(number);
      if (layer.spec.recurrent()) layer.states = part.states->layer(before++);
      if (layer.own && layer.own->passed >= 0) layer.passed_keys = passed_out_.keys[passed_out_.index_of(number)].floats;
      layers_.push_back(layer);
    }
  }
  for (const std::int64_t number : shared_from_before(h_, range_)) {
    arriving_.push_back(layer_of(number));
    arriving_.back().arrival = passed_in_.index_of(number);
  }
}

void TransformerStage::touch_cache() {
  for (const UnitLayers& part : units_) {
    part.cache->touch();
    if (part.states) part.states->touch();
    if (part.ngrams) part.ngrams->touch();
  }
}

void TransformerStage::suppose_text(std::int32_t tokens, SequenceRange sequences) {
  StageModel::suppose_text(tokens, sequences);
  if (state_cells_) state_cells_->suppose_text(cells_);
}

/// "cuda:0 (10 layers)+cpu (12 layers)" if several units have layers of their own, "cuda:0 (10 layers)+cuda:0 (12 copied layers)" if some
/// are copied.
std::string TransformerStage::device() const {
  if (units_.size() == 1 && !units_.front().copied) return units_.front().unit->device();
  std::string names;
  for (const UnitLayers& part : units_)
    names += fmt::format("{}{} ({})", names.empty() ? "" : "+", part.unit->device(),
                         counted(part.range.count(), part.copied ? "copied layer" : "layer"));
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
  const LayerRange own{part.range.begin - range_.begin, part.range.end - range_.begin};
  if (!part.copied) return pack(part, weights_.factors(own), BufferUse::kWeights);
  for (std::int64_t layer = own.begin; layer < own.end; ++layer)
    pack(part, weights_.layers[static_cast<std::size_t>(layer)].factors(), BufferUse::kCopiedWeights);
  pack(part, weights_.factors({own.end, own.end}), BufferUse::kWeights);
}

void TransformerStage::pack(UnitLayers& part, const std::vector<Matrix*>& matrices, BufferUse use) {
  if (matrices.empty()) return;
  part.packed.push_back(set_aside_packed(*part.unit, matrices, ops_, "weights", "give it fewer layers", use));
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

/// The cells of a layer, and how a run fills and sees them.
LayerCache TransformerStage::cells_of(const Layer& layer) const {
  const bool windowed = layer.spec.window > 0;
  return {.k = layer.cells ? layer.cells->k.data() : nullptr,
          .v = layer.cells ? layer.cells->v.data() : nullptr,
          .k_type = tensor_type(units_.front().cache->types().k),
          .v_type = tensor_type(units_.front().cache->types().v),
          .cells = (windowed && window_cells_ ? window_batch_ : batch_cells_).cells().data(),
          .visible = windowed ? in_window_.data() : visible_.data(),
          .angles = buffers_.angles.data() + (windowed ? (ropes_.size() - 1) * rows_ * angles_width() : 0),
          .index = layer.cells ? layer.cells->index.data() : nullptr,
          .picked = picked_.rows(),
          .blocks = &blocks_};
}

LayerCache TransformerStage::cache_of(std::size_t layer) {
  const Layer& own = layers_[layer];
  const std::int64_t inputs = h_.layer.input_dim;
  LayerCache cache = cells_of(own);
  cache.query_scales = buffers_.query_scales.data();
  cache.plan = state_plan_, cache.states = own.states;
  cache.finished = state_cells_ && layer == last_state_layer_ ? state_cells_->written() : nullptr;
  if (own.passed_keys > 0) {
    const auto rows = static_cast<std::int64_t>(rows_);
    cache.passed_k = buffers_.passed.data() + rows * own.own->passed;
    cache.passed_v = cache.passed_k + rows * own.passed_keys;
  }
  const std::int64_t at = static_cast<std::int64_t>(layer) * inputs;
  cache.ngram_columns = ngram_columns_;
  cache.inputs = buffers_.layer_inputs.data() + at, cache.input_gates = buffers_.layer_gates.data() + at;
  cache.input_stride = (h_.layers - range_.begin) * inputs;
  return cache;
}

void TransformerStage::build(const StageBatch& batch) {
  ops_.clear(), parts_.clear();
  const auto rows = static_cast<std::int64_t>(rows_);
  float* x = buffers_.x.data();
  if (first()) {
    ops_.push_back(EmbedOp{&weights_.rest.matrix(TensorRole::kEmbedding), embedded_tokens(batch.tokens), x, h_.embedding_scale});
    if (h_.layer.input_dim > 0) layer_ops_.add_layer_inputs(weights_.rest, batch.tokens);
    if (ngrams_) ops_.push_back(EmbedOp{&weights_.rest.matrix(TensorRole::kNgramEmbedding), ngram_rows_, buffers_.layer_inputs.data(), 1});
  } else {
    take(batch.activations);
  }
  if (h_.is_latent()) layer_ops_.number_heads(rows);
  if (h_.layer.streams > 0) layer_ops_.number_streams(rows);
  auto part = units_.begin();
  for (std::size_t layer = 0; layer < weights_.layers.size(); ++layer) {
    if (range_.begin + static_cast<std::int64_t>(layer) == part->range.end) {
      if (std::next(part)->unit != part->unit) parts_.push_back({part->unit, ops_.size()});
      ++part;
    }
    build_layer_features(layer);
    const Layer& own = layers_[layer];
    own.ops->add_layer(own.spec, weights_.layers[layer], cache_of(layer), rows, layer == 0 && !keeps_columns_);
  }
  if (!last() && !shard_.whole() && !keeps_columns_ && h_.layer.streams == 0)
    ops_.push_back(AllGatherOp{x, rows, h_.dim, layer_ops_.shared(shard_.residual())});
  if (last() && !logit_rows_.empty()) {
    ops_.push_back(GatherOp{x, h_.residual_dim(), logit_rows_, buffers_.chosen.data()});
    layer_ops_.add_logits(weights_.rest, buffers_.chosen.data(), std::ssize(logit_rows_));
    if (only_highest_) build_highest();
  }
  build_output_features();
  parts_.push_back({units_.back().unit, ops_.size()});
}

/// With hyper-connections, each token as often as there are streams.
std::span<const std::int32_t> TransformerStage::embedded_tokens(std::span<const std::int32_t> tokens) {
  if (h_.layer.streams == 0) return tokens;
  repeated_tokens_.clear();
  for (const std::int32_t token : tokens)
    repeated_tokens_.insert(repeated_tokens_.end(), static_cast<std::size_t>(h_.layer.streams), token);
  return repeated_tokens_;
}

/// Copies the parts of activations to where the layers read them, and writes keys and values of earlier layers into the cache.
void TransformerStage::take(std::span<const float> activations) {
  const auto rows = static_cast<std::int64_t>(rows_);
  std::copy_n(activations.begin(), rows * passed_in_.dim, buffers_.x.data());
  if (passed_in_.only_residual()) return;
  if (passed_in_.picked > 0) picked_.take_places(passed_in_.picked_in(activations, rows));
  received_.assign(activations.begin(), activations.end());
  std::ranges::copy(passed_in_.inputs_in(activations, rows), buffers_.layer_inputs.data());
  for (const Layer& layer : arriving_) {
    const std::int64_t all = passed_in_.keys[layer.arrival].floats;
    const Interval own = layer.shard->rows(Extent::kKeys);
    const float* from = passed_in_.keys_in(activations, rows, layer.arrival).data() + own.begin;
    float* const k = buffers_.passed.data() + rows * layer.own->passed;
    for (std::int64_t row = 0; row < 2 * rows; ++row) std::copy_n(from + row * all, own.count(), k + row * own.count());
    layer.ops->add_cells(layer.spec, cells_of(layer), k, k + rows * own.count(), rows);
  }
}

std::size_t TransformerStage::buffer_bytes() const { return buffers_.floats() * sizeof(float); }

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

std::span<const float> TransformerStage::activations() const {
  const std::span<const float> residual{buffers_.x.data(), rows_ * static_cast<std::size_t>(h_.residual_dim())};
  if (passed_out_.only_residual()) return residual;
  const auto rows = static_cast<std::int64_t>(rows_);
  sent_.assign(residual.begin(), residual.end());
  const std::int64_t inputs = PassedRows::inputs_from(h_, range_.begin), later = passed_out_.inputs;
  for (std::int64_t row = 0; row < rows; ++row) {
    const float* end = buffers_.layer_inputs.data() + (row + 1) * inputs;
    sent_.insert(sent_.end(), end - later, end);
  }
  for (const PassedRows::Keys& keys : passed_out_.keys) {
    if (keys.layer < range_.begin) {
      const std::span<const float> passed = passed_in_.keys_in(received_, rows, passed_in_.index_of(keys.layer));
      sent_.insert(sent_.end(), passed.begin(), passed.end());
    } else {
      const float* k = buffers_.passed.data() + rows * cached_.at(keys.layer).passed;
      sent_.insert(sent_.end(), k, k + 2 * rows * keys.floats);
    }
  }
  if (passed_out_.picked > 0) picked_.append_places(sent_);
  return sent_;
}

std::span<const float> TransformerStage::logits() const {
  return {buffers_.logits.data(), logit_rows_.size() * static_cast<std::size_t>(logit_tokens().count())};
}

}  // namespace yamata
