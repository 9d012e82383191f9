#pragma once
// Consecutive layers of a model, and their part of the KV cache.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "cache/cell_table.hpp"
#include "cache/kv_store.hpp"
#include "cache/text_slots.hpp"
#include "node/compute_unit.hpp"
#include "src/model/shard.hpp"

namespace yamata {

/// A rank's membership in the group that shares a stage's layers.
struct GroupMember {
  std::vector<double> shares{1.0};    ///< share of the columns, per member
  int member = 0;                     ///< the index of this rank
  GroupExchange* exchange = nullptr;  ///< how they exchange columns; null: this rank is alone
};

struct ContextOptions {
  std::int32_t cells = 0;  ///< tokens that the cache holds
  std::int32_t sequences = 1;
  CacheTypes cache_types;
  bool pack = true;  ///< pack weights for the compute unit as they are loaded
  GroupMember group{};
  std::int32_t context = 0;  ///< tokens of text in the cache, without guesses; 0: as many as cells
  /// of layers with a sliding window, if texts only grow: cells outside the window are reused; of layers with states: tokens whose inputs
  /// are kept; 0: as many as cells
  std::int32_t window_cells = 0;
  TextSlots texts{};              ///< which sequences are whose
  std::int64_t first_layers = 0;  ///< number of first layers that the unit's first_unit() computes
  bool pack_first = false;        ///< pack their weights in any case
  /// the unit, a device, computes the other layers, too; their packed weights are copied to it for every run (offloading)
  bool copy_others = false;
  bool only_time = false;  ///< only its time is measured, so that weights may be holes (gguf::Presence)
};

/// As a feature layer: the hidden states after the last layer and the output norm.
inline constexpr std::int32_t kOutputFeatures = std::numeric_limits<std::int32_t>::max();
/// This plus i: stream i after the last layer, of a model with hyper-connections. Any smaller number n means the input of layer n.
inline constexpr std::int32_t kStreamFeatures = kOutputFeatures - kMostStreams;
/// The feature layers that EAGLE-3 reads in a model of `layers` layers, ascending: 2, L/2, L-3; in a model of fewer than 7 the middle
/// one and those beside it, as far as there are any. launch/python/training/target.py has the same rule.
inline std::vector<std::int32_t> eagle3_layers(std::int64_t layers) {
  const auto l = static_cast<std::int32_t>(layers), middle = l / 2;
  std::vector<std::int32_t> read{std::min(2, middle - 1), middle, std::max(l - 3, middle + 1)};
  std::erase_if(read, [l](std::int32_t layer) { return layer < 0 || layer >= l; });
  return read;
}

/// A batch of tokens for a stage.
struct StageBatch {
  std::span<const std::int32_t> tokens;      ///< read by the first stage
  std::span<const float> activations;        ///< [tokens][input_width], in parts (passed_rows.hpp); read by the other stages
  std::span<const Placement> placements;     ///< one per token
  std::span<const std::int32_t> logit_rows;  ///< rows whose logits are requested, ascending; read by the last stage
  /// the last guess that, with those before it, will more likely than not become text; -1: none. Layers with states may keep that after it
  std::int32_t likely_row = -1;
  std::span<const std::int32_t> feature_rows{};  ///< rows whose features are requested, ascending
  /// [tokens][features_read]: features of the token before each token; empty: the tokens are guesses
  std::span<const float> features{};
  /// layers of the requested features, ascending; each stage gives those of its own layers
  std::span<const std::int32_t> feature_layers{};
  /// whether only the highest logit of each row will be read
  bool only_highest = false;
};

class StageModel {
 public:
  virtual ~StageModel() = default;
  /// Starts to load this stage's weights into memory, so that the first token need not wait for the disk; returns at once.
  virtual void load(const std::atomic<bool>* stop) = 0;
  /// Number of operations that load() runs.
  virtual std::size_t load_steps() const = 0;
  /// Places the batch in the cache and starts to compute; returns at once. The spans in `batch` must outlive the run.
  virtual void start(const StageBatch& batch, const std::atomic<bool>* stop) = 0;
  /// The compute unit. It may serve other stages, too, one list of operations at a time.
  virtual ComputeUnit& unit() = 0;
  virtual const ComputeUnit& unit() const = 0;
  /// Name of the device that computes, for statistics.
  virtual std::string device() const { return unit().device(); }
  /// After the end: whether the run was left before its end. In a group, all members left it.
  bool was_stopped() const { return unit().was_stopped(); }
  /// Number of ranks that share the stage's layers.
  virtual int members() const { return 1; }
  /// This rank's share of its layers' columns.
  virtual double share() const { return 1; }
  /// Seconds spent in the exchanges of all runs, and bytes sent there. At any time.
  virtual double exchange_s() const { return 0; }
  virtual std::uint64_t exchange_bytes() const { return 0; }
  /// Ends all waits for other members, because the job is ending. The computation with them is left.
  virtual void abandon_group() {}
  /// The member that this one has been waiting for for long; -1: none. At any time.
  virtual int awaited() const { return -1; }
  /// After the end: hidden states [tokens][width] after this stage's last layer, and what else the next stage reads. In the last stage's
  /// group, each member only has its own columns.
  virtual std::span<const float> activations() const = 0;
  /// After the end, on the last stage: logits [logit_rows][logit_tokens].
  virtual std::span<const float> logits() const = 0;
  /// The same for a model that gives logits only to known_tokens(): [logit_rows][known_tokens].
  virtual std::span<const float> known_logits() const { return logits(); }
  /// The tokens that have a logit above minus infinity, one per column of known_logits(). Empty: all of logit_tokens().
  virtual std::span<const std::int32_t> known_tokens() const { return {}; }
  /// After the end, on the last stage, if only the highest logits were requested: [logit_rows], as columns of logit_tokens(); logits() must
  /// not be read then. Empty if this model does not find them: then read logits().
  virtual std::vector<Highest> highest() const { return {}; }
  /// Tokens of the vocabulary whose logits are computed here: all, or a member's part.
  virtual Interval logit_tokens() const { return {0, vocabulary()}; }
  /// After the end: features [feature layers of this stage][feature_rows][width].
  virtual std::span<const float> features() const = 0;
  virtual CellTable& cells() = 0;
  /// For measurements, between runs: from now on `sequences` have a text of `tokens` tokens. What the cache contains of it does not matter
  /// for the time.
  virtual void suppose_text(std::int32_t tokens, SequenceRange sequences);
  /// For heads: number of floats of the target's features that come with each token of a text; 0: none, this is a full model.
  virtual std::int64_t features_read() const { return 0; }
  /// For heads whose guesses only depend on their distance from the text's end, so that one row's logits serve all rows of that distance:
  /// the largest distance. 0: a guess depends on the guesses before it.
  virtual std::int64_t depths() const { return 0; }
  /// Whether layers of the model, here or on other stages, have states.
  virtual bool has_states() const { return false; }
  /// If layers of the model, here or on other stages, only have cells for the ends of texts: the tokens that a token sees there; 0: all
  /// layers have all cells.
  virtual std::int32_t window() const { return 0; }
  /// Floats of one token's hidden state.
  virtual std::int64_t width() const = 0;
  /// Floats of one token's activations that this stage reads, if it is not the first.
  virtual std::int64_t input_width() const { return width(); }
  /// Size of the vocabulary.
  virtual std::int64_t vocabulary() const = 0;
  virtual LayerRange layers() const = 0;
  virtual bool first() const = 0;
  virtual bool last() const = 0;
};

}  // namespace yamata
