#pragma once
// The part of every layer that one rank of a group holds: some columns of each result (tensor parallelism; Ghidorah's column split, between
// machines).
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cache/kv_store.hpp"
#include "src/model/hyperparameters.hpp"

namespace yamata {

/// Half-open.
struct Interval {
  std::int64_t begin = 0, end = 0;
  std::int64_t count() const { return end - begin; }
};

/// The division of columns among all members, and this member's part. Heads stay whole; other results are divided at blocks of 32, so that
/// a member can quantize its part alone. If two members have query heads of one key/value head, both compute and cache that head. The heads
/// of a gated delta rule are divided in the same way, in the order of the columns that follow, because a member's part of an exchange is
/// consecutive: where they read key heads in turn, several members compute the same key heads.
class Shard {
 public:
  /// All columns.
  explicit Shard(const Hyperparameters& h) : Shard(h, std::vector<double>{1.0}, 0) {}
  /// `shares`: of the columns, one per member, any positive numbers; each member gets at least one piece. Throws UsageError if there are
  /// more members than pieces.
  Shard(const Hyperparameters& h, std::span<const double> shares, int own);

  int members() const { return static_cast<int>(attention_.size()) - 1; }
  bool whole() const { return members() == 1; }
  /// The same members' parts of a layer of this model, where layers differ.
  Shard of_layer(const Hyperparameters& h, std::int64_t layer) const { return {h.of_layer(layer), shares_, own_}; }
  /// The share of the feed-forward's columns, which are the largest part.
  double share() const { return static_cast<double>(own(widest_ffn()).count()) / static_cast<double>(widest_ffn().back()); }

  // Where each member's columns begin, and the last one's end: [members + 1]
  std::span<const std::int64_t> attention() const { return attention_; }
  std::span<const std::int64_t> ffn() const { return ffn_; }
  std::span<const std::int64_t> expert_ffn() const { return expert_ffn_; }
  /// Of what experts write.
  std::span<const std::int64_t> expert_dim() const { return expert_dim_; }
  std::span<const std::int64_t> shared_ffn() const { return shared_ffn_; }
  std::span<const std::int64_t> layer_input() const { return layer_input_; }
  /// Of keys, with each column at one member only, although two members may both have a head.
  std::span<const std::int64_t> keys() const { return keys_; }
  std::span<const std::int64_t> residual() const { return residual_; }
  /// Of the results of a gated delta rule.
  std::span<const std::int64_t> state_values() const { return states_; }
  /// This member's heads of a gated delta rule.
  const StateShape& state() const { return state_; }

  /// This member's rows of a matrix with such rows; empty if every member has all of them.
  Interval rows(Extent extent) const;
  std::int64_t query_heads() const { return rows(Extent::kHeads).count(); }
  std::int64_t kv_heads() const { return rows(Extent::kKeys).count() / key_dim_; }
  /// The shape of this member's cache for this many layers.
  CacheShape cache_shape(std::int64_t layers) const {
    return {static_cast<int>(layers), static_cast<int>(kv_heads()), static_cast<int>(cell_dim_), !latent_};
  }
  /// Number of the first key/value head's query heads that the previous member has.
  std::int64_t heads_before() const;

 private:
  Interval own(std::span<const std::int64_t> cuts) const;

  std::vector<double> shares_;
  int own_;
  std::int64_t query_dim_, value_dim_, key_dim_, cell_dim_, group_;
  bool latent_;
  std::span<const std::int64_t> widest_ffn() const { return expert_ffn_.back() > 0 ? expert_ffn_ : ffn_; }
  std::vector<std::int64_t> attention_, keys_, ffn_, expert_ffn_, expert_dim_, shared_ffn_, layer_input_, residual_, vocabulary_, states_;
  StateShape state_;
};

/// Number of exchanges in a layer: after attention, its output projection, the activation and the down projection.
inline constexpr int kExchangesPerLayer = 4;
/// Bytes of a row's slices in the exchanges of one layer, of all members together, with quantized matrices.
double exchange_bytes(const Hyperparameters& h);

/// The most ranks that can share a layer.
std::int64_t most_members(const Hyperparameters& h);
/// The beginning of an error: so many members, each a `what`, are more than most_members().
std::string too_many(const Hyperparameters& h, std::int64_t members, const char* what);

}  // namespace yamata
