#include "mpi/planning/layout.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "node/counted.hpp"
#include "node/error.hpp"
#include "node/read_number.hpp"

namespace yamata {
namespace {

[[noreturn]] void bad_split(const std::string& text, const std::string& why) {
  throw UsageError(
      fmt::format("--layer-split '{}': {}; give one share per rank, such as 0.5,0.3,0.2, with a draft 0.5,0.5/1.0, or, where ranks "
                  "share layers, 0.5+0.5, or auto, measure or bytes",
                  text, why));
}

double parse_share(const std::string& word, const std::string& whole) {
  const double share = read_number<double>(word).value_or(0);
  if (!std::isfinite(share) || share <= 0) bad_split(whole, fmt::format("'{}' is not a share above 0", word));
  return share;
}

/// Parses the shares of one model's ranks: stages are separated by commas, the ranks of a group by pluses.
ModelShares parse_shares(const std::string& text, const std::string& whole) {
  ModelShares model;
  int members = 0;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find_first_of(",+", at), text.size());
    model.shares.push_back(parse_share(text.substr(at, end - at), whole));
    ++members;
    if (end == text.size() || text[end] == ',') model.groups.push_back(std::exchange(members, 0));
    at = end + 1;
  }
  return model;
}

/// Throws UsageError if `drafts` models have no ranks: on rank 0 there is place for one.
void require_ranks(int drafts, bool draft_on_head, bool automatic) {
  if (drafts < 2) return;
  if (draft_on_head)
    throw UsageError(fmt::format(
        "--no-async drafts on rank 0, which can hold one drafter, not {}; leave --no-async out, or give one -md without --drafters",
        drafts));
  throw UsageError(fmt::format("{} drafters need ranks of their own; {}", drafts,
                               automatic ? fmt::format("start at least {} ranks", drafts + 1)
                                         : "give each a share after a slash, as in 0.5,0.5/1/1, and start a rank for every share"));
}

/// Throws UsageError if there are shares for drafts that have no ranks.
void require_drafts_apart(const std::string& layer_split, int drafts, bool draft_on_head) {
  if (draft_on_head)
    throw UsageError(
        fmt::format("--layer-split '{}': there are shares for a draft, but --no-async drafts on rank 0; leave --no-async out, or give one "
                    "share per rank without a slash, such as 0.5,0.3,0.2",
                    layer_split));
  if (drafts == 0) bad_split(layer_split, "there are shares for a draft but no draft model; name one with -md");
}

}  // namespace

bool is_automatic(const std::string& layer_split) { return layer_split == "auto" || layer_split == "measure" || layer_split == "bytes"; }

std::vector<double> ModelPlace::stage_shares() const {
  if (groups.empty()) return shares;
  std::vector<double> sums;
  auto share = shares.begin();
  for (const int members : groups) {
    sums.push_back(std::accumulate(share, share + members, 0.0));
    share += members;
  }
  return sums;
}

std::vector<LayerRange> ModelPlace::per_rank(const std::vector<LayerRange>& stages) const {
  if (groups.empty()) return stages;
  std::vector<LayerRange> ranges;
  for (std::size_t s = 0; s < stages.size(); ++s) ranges.insert(ranges.end(), static_cast<std::size_t>(groups[s]), stages[s]);
  return ranges;
}

std::vector<ModelShares> parse_layer_split(const std::string& text) {
  std::vector<ModelShares> models;
  if (is_automatic(text)) return models;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t slash = std::min(text.find('/', at), text.size());
    models.push_back(parse_shares(text.substr(at, slash - at), text));
    at = slash + 1;
  }
  return models;
}

std::string to_text(const Layout& layout) {
  std::string text;
  for (const ModelPlace& place : layout) {
    if (&place != &layout.front() && place.ranks == std::vector<int>{0}) continue;  // a draft on rank 0 has no share
    if (!text.empty()) text += '/';
    std::size_t rank = 0;
    const std::vector<int> groups = place.groups.empty() ? std::vector<int>(place.ranks.size(), 1) : place.groups;
    for (const int members : groups) {
      for (int member = 0; member < members; ++member, ++rank)
        text += fmt::format("{}{:g}", member > 0 ? "+" : rank > 0 ? "," : "", place.shares.empty() ? 1.0 : place.shares[rank]);
    }
  }
  return text;
}

Layout make_layout(const std::string& layer_split, int ranks, int drafts, bool draft_on_head, int heads) {
  const std::vector<ModelShares> models = parse_layer_split(layer_split);
  if (heads > 0 && static_cast<int>(models.size()) != 1 + drafts + heads) {  // heads have no ranks of their own
    Layout layout = make_layout(layer_split, ranks, drafts, draft_on_head);
    for (int model = drafts + 1; model <= drafts + heads; ++model) layout.push_back({model, {0}});
    return layout;
  }
  for (std::size_t model = static_cast<std::size_t>(drafts) + 1; heads > 0 && model < models.size(); ++model) {
    if (models[model].shares.size() > 1) bad_split(layer_split, "heads lie on one rank");
  }
  drafts += heads;
  if (models.size() > 1) require_drafts_apart(layer_split, drafts, draft_on_head);
  if (models.size() > 1 && static_cast<int>(models.size()) != 1 + drafts)
    bad_split(layer_split, fmt::format("{} draft models take {} groups of shares", drafts, drafts + 1));
  const bool own_ranks = !draft_on_head && drafts > 0 && (models.empty() ? ranks > drafts : models.size() > 1);
  if (!own_ranks) require_ranks(drafts, draft_on_head, models.empty());

  Layout layout;
  int next = 0;
  const auto place = [&](int model, int count) {
    layout.push_back({model, std::vector<int>(static_cast<std::size_t>(count))});
    for (int& rank : layout.back().ranks) rank = next++;
    if (models.empty()) return;
    const auto& [shares, groups] = models[static_cast<std::size_t>(model)];
    layout.back().shares = shares;
    if (groups.size() < shares.size()) layout.back().groups = groups;
  };
  const auto count = [&](int model) { return static_cast<int>(models[static_cast<std::size_t>(model)].shares.size()); };
  place(0, !models.empty() ? count(0) : own_ranks ? ranks - drafts : ranks);
  for (int d = 1; d <= drafts; ++d) {
    if (!own_ranks) {
      layout.push_back({d, {0}});
    } else {
      place(d, models.empty() ? 1 : count(d));
    }
  }
  if (next != ranks) {
    throw UsageError(fmt::format("--layer-split '{}' has {}, but there {} {}; give one share per rank", layer_split, counted(next, "share"),
                                 ranks == 1 ? "is" : "are", counted(ranks, "rank")));
  }
  return layout;
}

std::size_t place_of(const Layout& layout, int rank) {
  for (std::size_t i = 1; i < layout.size(); ++i) {
    if (rank != 0 && std::count(layout[i].ranks.begin(), layout[i].ranks.end(), rank) > 0) return i;
  }
  return 0;
}

}  // namespace yamata
