#pragma once
// Some consecutive layers of a model, and their part of the KV cache.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "cache/cell_table.hpp"
#include "cache/kv_store.hpp"
#include "node/compute_unit.hpp"
#include "src/model/shard.hpp"

namespace yamata {

/// One of the ranks that share a stage's layers.
struct GroupMember {
  std::vector<double> shares{1.0};    ///< of the columns, per member
  int member = 0;                     ///< which of them this rank is
  GroupExchange* exchange = nullptr;  ///< where they meet; null: this rank is alone
};

struct ContextOptions {
  std::int32_t cells = 0;  ///< tokens the cache holds
  std::int32_t sequences = 1;
  CacheTypes cache_types;
  bool pack = true;  ///< weights are packed for the compute unit as they are loaded
  GroupMember group{};
  std::int32_t context = 0;       ///< tokens of text that the cache is for, besides guesses; 0: as many as cells
  std::int32_t window_cells = 0;  ///< of layers with a window, where texts only grow: cells out of it are used again; 0: as many as cells
  std::int64_t first_layers = 0;  ///< so many of the first are computed by the unit's first_unit()
  bool pack_first = false;        ///< their weights are packed in any case
};

/// Among feature layers: the hidden states after the last layer and the output norm. Any other is a layer's number, and means its input.
inline constexpr std::int32_t kOutputFeatures = std::numeric_limits<std::int32_t>::max();
/// Those that EAGLE-3 reads of a model of so many layers: 2, L/2, L-3; of a small model fewer.
inline std::vector<std::int32_t> eagle3_layers(std::int64_t layers) {
  const auto l = static_cast<std::int32_t>(layers);
  return {std::min(2, l - 1), l / 2, std::max(0, l - 3)};
}

/// One batch of tokens for a stage.
struct StageBatch {
  std::span<const std::int32_t> tokens;            ///< read by the first stage
  std::span<const float> activations;              ///< [tokens][dim], read by the others
  std::span<const Placement> placements;           ///< one per token
  std::span<const std::int32_t> logit_rows;        ///< rows whose logits are asked for, ascending; read by the last stage
  std::span<const std::int32_t> feature_rows{};    ///< rows whose features are asked for, ascending
  std::span<const float> features{};               ///< [tokens][features_read] of the tokens before each; none: guesses
  std::span<const std::int32_t> feature_layers{};  ///< and at which layers, ascending: each stage has those of its own
};

class StageModel {
 public:
  virtual ~StageModel() = default;
  /// Begins to bring this stage's weights into memory, so that the first token need not wait for the disk; returns at once.
  virtual void load(const std::atomic<bool>* stop) = 0;
  /// Operations that load() runs.
  virtual std::size_t load_steps() const = 0;
  /// Places the batch in the cache and begins to compute; returns at once. The batch's tokens outlive the run.
  virtual void start(const StageBatch& batch, const std::atomic<bool>* stop) = 0;
  /// What computes; it may serve other stages too, one list of operations at a time.
  virtual ComputeUnit& unit() = 0;
  virtual const ComputeUnit& unit() const = 0;
  /// On what it is computed, for statistics.
  virtual std::string device() const { return unit().device(); }
  /// After the end: whether the run was left before it, by all members of a group alike.
  bool left() const { return unit().left(); }
  /// Ranks that share the stage's layers.
  virtual int members() const { return 1; }
  /// What of the columns of its layers this rank has.
  virtual double share() const { return 1; }
  /// Seconds spent in the meetings of all runs, and bytes sent there. At any time.
  virtual double exchange_s() const { return 0; }
  virtual std::uint64_t exchange_bytes() const { return 0; }
  /// Nobody waits for the others any more: the job is ending, and what is computed with them is left.
  virtual void abandon_group() {}
  /// The one of them for whom this one has been waiting for long; -1: none. At any time.
  virtual int awaited() const { return -1; }
  /// After the end: hidden states [tokens][width] after this stage's last layer; no member of the last stage's group has more than its
  /// part.
  virtual std::span<const float> activations() const = 0;
  /// After the end, on the last stage: logits [logit_rows][logit_tokens].
  virtual std::span<const float> logits() const = 0;
  /// Tokens whose logits are computed here: all, or a member's part of them.
  virtual Interval logit_tokens() const { return {0, vocabulary()}; }
  /// After the end: features [feature layers here][feature_rows][width].
  virtual std::span<const float> features() const = 0;
  virtual CellTable& cells() = 0;
  /// Heads: floats of the target's features that each token of a text comes with; 0: none, this is a model by itself.
  virtual std::int64_t features_read() const { return 0; }
  /// Heads whose guesses depend on how far they are below the text alone, so that the logits of any row serve all that are as far: how far
  /// they guess. 0: a guess depends on those before it.
  virtual std::int64_t depths() const { return 0; }
  /// Floats of one token's activations.
  virtual std::int64_t width() const = 0;
  /// Tokens that the whole model knows.
  virtual std::int64_t vocabulary() const = 0;
  virtual LayerRange layers() const = 0;
  virtual bool first() const = 0;
  virtual bool last() const = 0;
};

}  // namespace yamata
