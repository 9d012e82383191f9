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
  const std::size_t first = word.find_first_not_of(' '), last = word.find_last_not_of(' ');  // a list may have blanks after its commas
  const double share = first == std::string::npos ? 0 : read_number<double>(word.substr(first, last - first + 1)).value_or(0);
  if (!std::isfinite(share) || share <= 0) bad_split(whole, fmt::format("'{}' is not a number above 0", word));
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

/// A `--layer-split` for `ranks` ranks in which each of `guessers`, drafters or heads, has a rank. The target keeps the shares of `text` if
/// their number fits.
std::string split_with_ranks_for(int guessers, int ranks, const std::string& text) {
  const int target = ranks - guessers;
  std::string split;
  if (const std::vector<ModelShares> models = parse_layer_split(text); std::ssize(models.front().shares) == target) {
    split = text.substr(0, text.find('/'));
  } else {
    for (int rank = 0; rank < target; ++rank) split += fmt::format("{}{:.2g}", rank > 0 ? "," : "", 1.0 / target);
  }
  for (int i = 0; i < guessers; ++i) split += "/1";
  return split;
}

/// "start at least 3 ranks", or what to write for the ranks that there are.
std::string remedy_for(int guessers, int ranks, const std::string& text) {
  if (ranks <= guessers) return fmt::format("start at least {}", counted(guessers + 1, "rank"));
  return fmt::format("for {} write {}", counted(ranks, "rank"), split_with_ranks_for(guessers, ranks, text));
}

/// Throws UsageError if `drafts` models have no ranks: on rank 0 there is place for one.
void require_ranks(const std::string& layer_split, int ranks, int drafts, bool draft_on_head) {
  if (drafts < 2) return;
  if (draft_on_head)
    throw UsageError(fmt::format(
        "--no-async drafts on rank 0, which can hold one drafter, not {}; leave --no-async out, or give one -md without --drafters",
        drafts));
  if (is_automatic(layer_split))
    throw UsageError(fmt::format("{} drafters need ranks of their own; start at least {}", drafts, counted(drafts + 1, "rank")));
  throw UsageError(fmt::format("--layer-split '{}': {} drafters need ranks of their own, and shares after a slash each; {}", layer_split,
                               drafts, remedy_for(drafts, ranks, layer_split)));
}

/// Throws UsageError if `slashes`, each before the shares of a draft or of heads, fit neither all of them nor the drafts alone.
void require_slashes(const std::string& layer_split, int slashes, int ranks, int drafts, int draft_heads, bool draft_on_head) {
  if (draft_on_head)
    throw UsageError(
        fmt::format("--layer-split '{}': there are shares for a draft, but --no-async drafts on rank 0; leave --no-async out, or give one "
                    "share per rank without a slash, such as 0.5,0.3,0.2",
                    layer_split));
  if (slashes == drafts + draft_heads || (slashes == drafts && drafts > 0)) return;
  const auto refuse = [&](const std::string& why) { throw UsageError(fmt::format("--layer-split '{}': {}", layer_split, why)); };
  if (drafts + draft_heads == 0) {
    refuse(
        fmt::format("there are shares after a slash, but nothing drafts; name a draft for each slash with -md FILE.gguf or --heads "
                    "FILE, or write {} for {}",
                    split_with_ranks_for(0, ranks, layer_split), counted(ranks, "rank")));
  }
  const std::string drafters = counted(drafts, "drafter"), sets = counted(draft_heads, "set") + " of heads";
  std::string why = fmt::format("{} slash{}, but {}: each needs one before its shares; {}", slashes, slashes == 1 ? "" : "es",
                                draft_heads == 0 ? drafters
                                : drafts == 0    ? sets
                                                 : drafters + " and " + sets,
                                remedy_for(drafts + draft_heads, ranks, layer_split));
  if (draft_heads > 0 && ranks > drafts)
    why += fmt::format(", or, with heads on rank 0, {}", split_with_ranks_for(drafts, ranks, layer_split));
  refuse(why);
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

Layout make_layout(const std::string& layer_split, int ranks, int drafts, bool draft_on_head, int draft_heads) {
  const std::vector<ModelShares> models = parse_layer_split(layer_split);
  const int slashes = std::max(0, static_cast<int>(models.size()) - 1);
  if (slashes > 0) require_slashes(layer_split, slashes, ranks, drafts, draft_heads, draft_on_head);
  if (draft_heads > 0 && slashes != drafts + draft_heads) {  // heads have no ranks of their own
    Layout layout = make_layout(layer_split, ranks, drafts, draft_on_head);
    for (int model = drafts + 1; model <= drafts + draft_heads; ++model) layout.push_back({model, {0}});
    return layout;
  }
  for (std::size_t model = static_cast<std::size_t>(drafts) + 1; draft_heads > 0 && model < models.size(); ++model) {
    if (models[model].shares.size() > 1)
      throw UsageError(
          fmt::format("--layer-split '{}': heads lie on one rank; {}", layer_split, remedy_for(drafts + draft_heads, ranks, layer_split)));
  }
  drafts += draft_heads;
  const bool own_ranks = !draft_on_head && drafts > 0 && (models.empty() ? ranks > drafts : models.size() > 1);
  if (!own_ranks) require_ranks(layer_split, ranks, drafts, draft_on_head);

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
