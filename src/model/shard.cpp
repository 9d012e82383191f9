#include "src/model/shard.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "node/counted.hpp"
#include "node/cut_by_shares.hpp"
#include "node/error.hpp"

namespace yamata {
namespace {

constexpr std::int64_t kBlock = 32;
constexpr std::int64_t kMaxLayerMembers = 1 << 20;

std::int64_t pieces(std::int64_t columns, std::int64_t grain) { return (columns + grain - 1) / grain; }

/// Attention's output is only divided at multiples of this many columns: whole heads, whole blocks.
std::int64_t head_grain(const Hyperparameters& h) { return std::lcm(h.value_dim(), kBlock); }
/// The same for the results of layers with states. Of those of a scan, what is normalized together stays so, unless it is all.
std::int64_t state_grain(const Hyperparameters& h) {
  const std::int64_t heads = h.state.scan && h.state.key_heads > 1 ? h.state.sharing() : 1;
  return std::lcm(std::max<std::int64_t>(1, heads * h.state.dim), kBlock);
}

std::int64_t dense_columns(const Hyperparameters& h) { return h.has_dense_layers() ? h.ffn : 0; }
std::int64_t expert_columns(const Hyperparameters& h) { return h.layer.experts > 0 ? h.layer.expert_ffn : 0; }

/// A piece for each member; empty pieces if there are no columns.
std::vector<std::int64_t> cut(std::int64_t columns, std::int64_t grain, std::span<const double> shares) {
  std::vector<std::int64_t> cuts(shares.size() + 1);
  cut_by_shares(columns, grain, shares, cuts);
  return cuts;
}

}  // namespace

double exchange_bytes(const Hyperparameters& h) {
  // bytes per value: a block of 32 has a scale; before a norm, also the sum of its squares; with hyper-connections, a float
  constexpr double kValue = 36.0 / 32, kNormed = 40.0 / 32, kFloat = sizeof(float);
  const LayerRange all{0, h.layers};
  const auto share = [&](std::int64_t layers) { return static_cast<double>(layers) / static_cast<double>(h.layers); };
  const double attend = share(attending_layers(h, all)), recur = share(recurrent_layers(h, all)), mix = attend + recur;
  const double feed = h.layer.alone ? 1 - mix : 1;
  const double heads = static_cast<double>(h.heads * h.value_dim()) * attend + static_cast<double>(h.state.values()) * recur;
  const double written = h.layer.streams > 0 ? kFloat : kNormed;
  return kValue * (heads + static_cast<double>(h.active_ffn()) * feed) + (mix + feed) * written * static_cast<double>(h.dim);
}

std::int64_t most_members(const Hyperparameters& h) {
  if (h.varies()) {
    std::int64_t least = kMaxLayerMembers;
    for (std::int64_t layer = 0; layer < h.layers; ++layer) least = std::min(least, most_members(h.of_layer(layer)));
    return least;
  }
  std::int64_t least = pieces(h.heads * h.value_dim(), head_grain(h));
  if (h.is_recurrent()) least = std::min(least, pieces(h.state.values(), state_grain(h)));
  for (const std::int64_t columns :
       {dense_columns(h), expert_columns(h), h.layer.shared_ffn, h.layer.input_dim, h.dim, h.expert_dim(), h.vocabulary}) {
    if (columns > 0) least = std::min(least, pieces(columns, kBlock));
  }
  return least;
}

std::string too_many(const Hyperparameters& h, std::int64_t members, const char* what) {
  return fmt::format("{} share a layer that can be cut into {}", counted(members, what), counted(most_members(h), "piece"));
}

Shard::Shard(const Hyperparameters& h, std::span<const double> shares, int own)
    : shares_(shares.begin(), shares.end()),
      own_(own),
      query_dim_(h.query_dim()),
      value_dim_(h.value_dim()),
      key_dim_(h.key_dim()),
      cell_dim_(h.head_dim),
      group_(h.heads / h.kv_heads),
      latent_(h.is_latent()),
      state_(h.state) {
  if (std::ssize(shares) > most_members(h))
    throw UsageError(fmt::format("{}; let at most {} share it", too_many(h, std::ssize(shares), "rank"), counted(most_members(h), "rank")));
  attention_ = cut(h.heads * value_dim_, head_grain(h), shares);
  for (const std::int64_t columns : attention_) keys_.push_back(columns / value_dim_ / group_ * key_dim_);
  keys_.back() = h.kv_heads * key_dim_;
  ffn_ = cut(dense_columns(h), kBlock, shares);
  expert_ffn_ = cut(expert_columns(h), kBlock, shares);
  expert_dim_ = cut(h.expert_dim(), kBlock, shares);
  shared_ffn_ = cut(h.layer.shared_ffn, kBlock, shares);
  layer_input_ = cut(h.layer.input_dim, kBlock, shares);
  residual_ = cut(h.dim, kBlock, shares);
  vocabulary_ = cut(h.vocabulary, kBlock, shares);
  states_ = cut(h.state.values(), state_grain(h), shares);
  const Interval values = this->own(states_);
  if (!whole() && h.is_recurrent()) state_ = h.state.some(values.begin / h.state.dim, values.end / h.state.dim);
}

Interval Shard::own(std::span<const std::int64_t> cuts) const {
  return {cuts[static_cast<std::size_t>(own_)], cuts[static_cast<std::size_t>(own_) + 1]};
}

Interval Shard::rows(Extent extent) const {
  switch (extent) {
    case Extent::kQueries: {
      const Interval heads = rows(Extent::kHeads);
      return {heads.begin * query_dim_, heads.end * query_dim_};
    }
    case Extent::kKeys: {
      const Interval heads = rows(Extent::kHeads);
      return {heads.begin / group_ * key_dim_, (heads.end + group_ - 1) / group_ * key_dim_};
    }
    case Extent::kValues:
      return own(attention_);
    case Extent::kGatedQueries: {
      const Interval queries = rows(Extent::kQueries);
      return {2 * queries.begin, 2 * queries.end};
    }
    case Extent::kStateKeys:
      return {state_.first_key_head * state_.key_size(), (state_.first_key_head + state_.key_heads) * state_.key_size()};
    case Extent::kStateValues:
      return own(states_);
    case Extent::kStateHeads:
      return {state_.first_head, state_.first_head + state_.heads};
    case Extent::kHeadGates: {
      const std::int64_t each = state_.key_heads > 0 ? 2 * state_.sharing() : 0;
      return {state_.first_key_head * each, (state_.first_key_head + state_.key_heads) * each};
    }
    case Extent::kFfn:
      return own(ffn_);
    case Extent::kExpertFfn:
      return own(expert_ffn_);
    case Extent::kExpertDim:
      return own(expert_dim_);
    case Extent::kSharedFfn:
      return own(shared_ffn_);
    case Extent::kLayerInput:
      return own(layer_input_);
    case Extent::kHeads: {
      const Interval columns = own(attention_);
      return {columns.begin / value_dim_, columns.end / value_dim_};
    }
    case Extent::kDim:
      return own(residual_);
    case Extent::kVocabulary:
      return own(vocabulary_);
    default:  // the others are not divided
      break;
  }
  return {};
}

std::int64_t Shard::heads_before() const { return rows(Extent::kHeads).begin % group_; }

}  // namespace yamata
