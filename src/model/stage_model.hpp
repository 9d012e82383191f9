#pragma once
// Some consecutive layers of a model, and their part of the KV cache.
#include <atomic>
#include <memory>
#include <span>
#include <vector>

#include "cache/cell_table.hpp"
#include "cache/kv_store.hpp"
#include "node/compute_unit.hpp"
#include "src/model/rope.hpp"
#include "src/model/weights.hpp"

namespace yamata {

struct ContextOptions {
  std::int32_t cells = 0;      ///< tokens the cache holds
  std::int32_t sequences = 1;
  CacheType cache_type = CacheType::kF16;
};

/// One batch of tokens for a stage.
struct StageBatch {
  std::span<const std::int32_t> tokens;    ///< read by the first stage
  std::span<const float> activations;      ///< [tokens][dim], read by the others
  std::span<const Placement> placements;   ///< one per token
  std::span<const std::int32_t> wanted;    ///< rows whose logits are asked for, ascending; read by the last stage
};

class StageModel {
 public:
  /// Layers `range` of the model in `file`, computed by `unit`; both outlive this. Throws ModelError.
  StageModel(const gguf::File& file, const Hyperparameters& h, LayerRange range, const ContextOptions& options, ComputeUnit& unit);
  /// Waits for a run under way, which reads and writes memory of this.
  ~StageModel();

  /// Places the batch in the cache and begins to compute; returns at once. The batch's tokens outlive the run.
  void start(const StageBatch& batch, const std::atomic<bool>* stop = nullptr);
  ComputeUnit& unit() { return unit_; }
  /// After the end: hidden states [tokens][dim] after this stage's last layer.
  std::span<const float> activations() const;
  /// After the end, on the last stage: logits [wanted][vocabulary].
  std::span<const float> logits() const;
  CellTable& cells() { return cells_; }
  const Hyperparameters& hyperparameters() const { return h_; }
  LayerRange layers() const { return range_; }
  bool first() const { return range_.begin == 0; }
  bool last() const { return range_.end == h_.layers; }

 private:
  void reserve(std::size_t rows, std::size_t wanted);
  void place(const StageBatch& batch);
  void build(const StageBatch& batch);
  void build_layer(std::size_t layer, std::int64_t rows);
  void build_output();

  Hyperparameters h_;
  LayerRange range_;
  StageWeights weights_;
  Rope rope_;
  CellTable cells_;
  KvStore store_;
  ComputeUnit& unit_;

  std::vector<void*> cache_k_, cache_v_;  // [layer][kv head]
  BatchCells batch_cells_;
  std::vector<std::span<const CellId>> visible_;
  std::vector<float> angles_;              // [rows][rotary_dim/2][2]
  std::vector<float> x_, h_norm_, q_, k_, v_, attention_, gate_, up_;  // [rows][...]
  std::vector<float> chosen_, logits_;     // [wanted][dim], [wanted][vocabulary]
  std::vector<std::int32_t> wanted_;
  std::size_t rows_ = 0;
  std::vector<Op> ops_;
};

}  // namespace yamata
