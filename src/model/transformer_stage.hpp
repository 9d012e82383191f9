#pragma once
// Layers of a transformer, described by their LayerSpec, computed from mapped weights.
#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "cache/kv_store.hpp"
#include "cache/state_cells.hpp"
#include "cache/window_cells.hpp"
#include "node/float_buffer.hpp"
#include "src/model/layer_ops.hpp"
#include "src/model/layer_shapes.hpp"
#include "src/model/passed_rows.hpp"
#include "src/model/picked_cells.hpp"
#include "src/model/rope.hpp"
#include "src/model/stage_model.hpp"

namespace yamata {

/// Operations per layer of Llama. A cancelled run is left at the end of one of them.
inline constexpr int kOperationsPerLayer = 6;

class TransformerStage final : public StageModel {
 public:
  /// Layers `range` of the model in `file`, or a member's part of them, computed by `unit`; both must outlive this. Throws ModelError, and
  /// UsageError if the layers cannot be divided into that many parts.
  TransformerStage(const gguf::File& file, const Hyperparameters& h, LayerRange range, const ContextOptions& options, ComputeUnit& unit);
  /// Waits for the current run, which uses this object's memory.
  ~TransformerStage() override;

  void load(const std::atomic<bool>* stop) override;
  /// From now on the layers are computed as in the middle of a stage: inputs and outputs are only this member's columns, and are not sent
  /// to the other members as floats. For measurements; the results are meaningless.
  void keep_columns() { keeps_columns_ = true; }
  /// Bytes of the buffers of the largest run so far.
  std::size_t buffer_bytes() const;
  /// Makes the cache's memory resident, as if every cell had been written.
  void touch_cache();
  std::size_t load_steps() const override { return load_steps_; }
  void start(const StageBatch& batch, const std::atomic<bool>* stop) override;
  ComputeUnit& unit() override { return unit_; }
  const ComputeUnit& unit() const override { return unit_; }
  std::string device() const override;
  std::span<const float> activations() const override;
  std::span<const float> logits() const override;
  std::vector<Highest> highest() const override;
  std::span<const float> features() const override;
  CellTable& cells() override { return cells_; }
  void suppose_text(std::int32_t tokens, SequenceRange sequences) override;
  std::int64_t width() const override { return h_.dim; }
  std::int64_t input_width() const override { return passed_in_.width(); }
  std::int64_t vocabulary() const override { return h_.vocabulary; }
  Interval logit_tokens() const override { return shard_.rows(Extent::kVocabulary); }
  int members() const override { return shard_.members(); }
  bool has_states() const override { return h_.is_recurrent(); }
  std::int32_t window() const override { return window_; }
  double share() const override { return shard_.share(); }
  double exchange_s() const override { return exchange_ ? exchange_->seconds() : 0; }
  std::uint64_t exchange_bytes() const override { return exchange_ ? exchange_->bytes_sent() : 0; }
  void abandon_group() override {
    if (exchange_) exchange_->abandon();
  }
  int awaited() const override { return exchange_ ? exchange_->awaited() : -1; }
  LayerRange layers() const override { return range_; }
  bool first() const override { return range_.begin == 0; }
  bool last() const override { return range_.end == h_.layers; }

 private:
  /// Layers computed by one unit, and the memory that it has for them.
  struct UnitLayers {
    ComputeUnit* unit;
    LayerRange range;                                       // of the model's layers
    bool packs;                                             // whether the weights are packed when they are loaded
    bool copied = false;                                    // for every run, to the unit's memory; those of the layers
    std::vector<std::span<const std::byte>> tensors{};      // that are read when the stage is loaded
    std::vector<std::span<const std::byte>> all_tensors{};  // of which runs may read parts, such as an expert's
    std::vector<std::unique_ptr<Buffer>> packed{};
    std::unique_ptr<KvStore> cache{};
    std::unique_ptr<StateStore> states{};  // of layers that have them
    std::unique_ptr<StateStore> ngrams{};  // of the layer that has n-gram embeddings
  };
  /// Keys and values of a layer: those of each kv head here, and where they are if they pass between stages; keys of its index.
  struct Cached {
    std::vector<void*> k, v, index;
    std::int64_t passed = -1;  // floats per row before it in buffers_.passed; -1: it does not pass
  };
  /// What a layer has in every run.
  struct Layer {
    LayerSpec spec;
    const Shard* shard;
    LayerOps* ops;
    const Cached* cells;           // that it reads; null: none
    const Cached* own;             // null: it reads another layer's
    StateMemory states{};          // if it has them
    std::size_t arrival = 0;       // of a layer before this stage: its number among those whose keys and values arrive
    std::int64_t passed_keys = 0;  // of one whose keys and values pass to the next stage: floats of keys per row
  };
  void share_out(const ContextOptions& options);
  void share_cache(UnitLayers& part, const ContextOptions& options);
  void pack(UnitLayers& part);
  void pack(UnitLayers& part, const std::vector<Matrix*>& matrices, BufferUse use);
  void place(const StageBatch& batch);
  std::size_t angles_width() const;
  void take(std::span<const float> activations);
  void share_passed();
  void build(const StageBatch& batch);
  std::span<const std::int32_t> embedded_tokens(std::span<const std::int32_t> tokens);
  Layer layer_of(std::int64_t number);
  void gather_layers();
  LayerCache cache_of(std::size_t layer);
  LayerCache cells_of(const Layer& layer) const;
  const float* rope_factors(std::int64_t context) const;
  void begin_features(const StageBatch& batch);
  void build_layer_features(std::size_t layer);
  void build_stream_features(std::int32_t stream);
  void build_output_features();
  void build_highest();
  float* add_features();

  const gguf::File& file_;
  Hyperparameters h_;
  LayerRange range_;
  const Shard shard_;
  GroupExchange* const exchange_;
  StageWeights weights_;
  const StageBuffers sizes_;
  const LayerShapes shapes_;
  const PassedRows passed_in_, passed_out_;
  std::vector<Rope> ropes_;  // of layers without a window, then of layers with one if they differ
  CellTable cells_;
  const std::int32_t window_;                // of layers of the model, if those with a window have fewer cells; else 0
  std::optional<WindowCells> window_cells_;  // if there are such layers here
  std::optional<StateCells> state_cells_;    // if layers have states
  const StatePlan* state_plan_ = nullptr;
  std::size_t last_state_layer_ = 0;
  ComputeUnit& unit_;
  std::vector<UnitLayers> units_;  // in the order of their layers
  bool keeps_columns_ = false;
  bool only_highest_ = false;  // of the logits of the latest run
  bool file_is_read_ = false;  // then most of the file is not needed any more

  std::map<std::int64_t, Cached> cached_;  // by layer of the model
  std::vector<Layer> layers_, arriving_;   // of this stage; those before it whose keys and values arrive with the activations
  std::vector<std::int32_t> repeated_tokens_;
  std::vector<float> received_;      // activations of the latest run, if they have more than the residual stream
  mutable std::vector<float> sent_;  // the same that the next stage reads
  BatchCells batch_cells_, window_batch_;
  std::vector<std::span<const CellId>> visible_, in_window_;
  PickedCells picked_;
  KeyBlocks blocks_;
  std::optional<Ngrams> ngrams_;  // on the first stage
  std::vector<std::int32_t> ngram_rows_;
  float* ngram_columns_ = nullptr;
  RunBuffers buffers_;
  FloatBuffer features_;                                                  // [feature layers here][feature_rows][dim]
  std::vector<std::int32_t> stream_rows_;                                 // of features that are streams
  FloatBuffer feature_inputs_;                                            // [feature_rows][residual stream], as it is
  std::vector<std::int32_t> logit_rows_, feature_rows_, feature_layers_;  // feature_layers_: those of this stage
  std::size_t features_built_ = 0;                                        // number of feature layers
  std::size_t rows_ = 0, load_steps_ = 0;
  std::vector<Op> ops_;
  std::vector<ListPart> parts_;
  LayerOps layer_ops_;
  std::map<const LayerShape*, LayerOps> ops_of_;  // of layers of each shape
};

}  // namespace yamata
