#pragma once
// What one rank of a group holds of every layer of their stage: some columns of each of its results (tensor parallelism; Ghidorah's column
// split, between machines).
#include <cstdint>
#include <span>
#include <vector>

#include "cache/kv_store.hpp"
#include "src/model/hyperparameters.hpp"

namespace yamata {

/// Half-open.
struct Interval {
  std::int64_t begin = 0, end = 0;
  std::int64_t count() const { return end - begin; }
};

/// Where the columns are cut, for all members, and which part is this one's. Heads stay whole, other results are cut at blocks of 32, so
/// that a member can quantize its part alone. A key/value head whose query heads lie with two members is computed and cached by both.
class Shard {
 public:
  /// All columns.
  explicit Shard(const Hyperparameters& h) : Shard(h, std::vector<double>{1.0}, 0) {}
  /// `shares`: of the columns, one per member, any positive numbers; each gets a piece at least. Throws UsageError where there are more
  /// members than pieces.
  Shard(const Hyperparameters& h, std::span<const double> shares, int own);

  int members() const { return static_cast<int>(attention_.size()) - 1; }
  bool whole() const { return members() == 1; }
  /// Of the feed-forward's columns, which are the most.
  double share() const { return static_cast<double>(own(widest_ffn()).count()) / static_cast<double>(widest_ffn().back()); }

  // Where each member's columns begin, and the last one's end: [members + 1]
  std::span<const std::int64_t> attention() const { return attention_; }
  std::span<const std::int64_t> ffn() const { return ffn_; }
  std::span<const std::int64_t> expert_ffn() const { return expert_ffn_; }
  std::span<const std::int64_t> shared_ffn() const { return shared_ffn_; }
  /// Of keys, each column at one member only: two have those of a head whose query heads lie with both.
  std::span<const std::int64_t> keys() const { return keys_; }
  std::span<const std::int64_t> residual() const { return residual_; }

  /// The rows that are here of a matrix with such rows; empty where every member has them all.
  Interval rows(Extent extent) const;
  std::int64_t query_heads() const { return rows(Extent::kHeads).count(); }
  std::int64_t kv_heads() const { return rows(Extent::kKeys).count() / cell_dim_; }
  /// What is cached here of so many layers.
  CacheShape cache_shape(std::int64_t layers) const {
    return {static_cast<int>(layers), static_cast<int>(kv_heads()), static_cast<int>(cell_dim_), !latent_};
  }
  /// Of the first key/value head's query heads, those that are a member's before.
  std::int64_t heads_before() const;

 private:
  Interval own(std::span<const std::int64_t> cuts) const;

  int own_;
  std::int64_t query_dim_, value_dim_, cell_dim_, group_;
  bool latent_;
  std::span<const std::int64_t> widest_ffn() const { return expert_ffn_.back() > 0 ? expert_ffn_ : ffn_; }
  std::vector<std::int64_t> attention_, keys_, ffn_, expert_ffn_, shared_ffn_, residual_, vocabulary_;
};

/// How often the members of a group meet in a layer: after attention, its output projection, the activation and the down projection.
inline constexpr int kMeetingsPerLayer = 4;
/// Bytes of a row's slices in the meetings of one layer, those of all members together, where its matrices are quantized.
double meeting_bytes(const Hyperparameters& h);

/// The most ranks that can share a layer.
std::int64_t most_members(const Hyperparameters& h);

}  // namespace yamata
