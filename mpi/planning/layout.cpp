#include "mpi/planning/layout.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "node/counted.hpp"
#include "node/error.hpp"

namespace yamata {
namespace {

[[noreturn]] void bad_split(const std::string& text, const std::string& why) {
  throw UsageError(fmt::format(
      "--layer-split '{}': {}; give one share per rank, such as 0.5,0.3,0.2 or, with a draft, 0.5,0.5/1.0, or auto, measure or bytes", text,
      why));
}

std::vector<double> parse_shares(const std::string& text, const std::string& whole) {
  std::vector<double> shares;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    const std::string word = text.substr(at, comma - at);
    char* end = nullptr;
    const double share = std::strtod(word.c_str(), &end);
    if (word.empty() || *end != '\0' || !std::isfinite(share) || share <= 0)
      bad_split(whole, fmt::format("'{}' is not a share above 0", word));
    shares.push_back(share);
    at = comma + 1;
  }
  return shares;
}

}  // namespace

bool is_automatic(const std::string& layer_split) { return layer_split == "auto" || layer_split == "measure" || layer_split == "bytes"; }

std::vector<std::vector<double>> parse_layer_split(const std::string& text) {
  std::vector<std::vector<double>> groups;
  if (is_automatic(text)) return groups;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t slash = std::min(text.find('/', at), text.size());
    groups.push_back(parse_shares(text.substr(at, slash - at), text));
    at = slash + 1;
  }
  return groups;
}

Layout make_layout(const std::string& layer_split, int ranks, int drafts, bool draft_on_head) {
  const auto groups = parse_layer_split(layer_split);
  if (groups.size() > 1 && drafts == 0) bad_split(layer_split, "there are shares for a draft but no draft model; name one with -md");
  if (groups.size() > 1 && draft_on_head) bad_split(layer_split, "there are shares for a draft that is to run on rank 0");
  if (groups.size() > 1 && static_cast<int>(groups.size()) != 1 + drafts)
    bad_split(layer_split, fmt::format("{} draft models take {} groups of shares", drafts, drafts + 1));
  const bool own_ranks = !draft_on_head && drafts > 0 && (groups.empty() ? ranks > drafts : groups.size() > 1);

  if (drafts > 1 && !own_ranks)
    throw UsageError(
        fmt::format("{} drafters need ranks of their own; start more ranks or give shares for them with --layer-split", drafts));

  Layout layout;
  int next = 0;
  const auto place = [&](int model, int count, std::vector<double> shares) {
    layout.push_back({model, std::vector<int>(static_cast<std::size_t>(count)), std::move(shares)});
    for (int& rank : layout.back().ranks) rank = next++;
  };
  if (groups.empty()) {
    place(0, own_ranks ? ranks - drafts : ranks, {});
  } else {
    place(0, static_cast<int>(groups[0].size()), groups[0]);
  }
  for (int d = 1; d <= drafts; ++d) {
    if (!own_ranks) {
      layout.push_back({d, {0}, {}});
    } else if (groups.empty()) {
      place(d, 1, {});
    } else {
      place(d, static_cast<int>(groups[static_cast<std::size_t>(d)].size()), groups[static_cast<std::size_t>(d)]);
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
