#pragma once
// Which ranks hold the target, and which draft.
#include <string>
#include <vector>

#include "src/model/hyperparameters.hpp"

namespace yamata {

/// The ranks that hold one model.
struct ModelPlace {
  int model = 0;                 ///< 0: the target; 1, 2, ...: the drafts, in the order of -md
  std::vector<int> ranks{};      ///< ascending; the first leads
  std::vector<double> shares{};  ///< of the layers, or of the columns of shared ones, per rank; empty: automatic
  std::vector<int> groups{};     ///< ranks that share each stage, in order; empty: a stage has one rank

  /// The shares of the layers, per stage; empty: automatic.
  std::vector<double> stage_shares() const;
  int stages() const { return static_cast<int>(groups.empty() ? ranks.size() : groups.size()); }
  /// The ranges of the stages, once for each of their ranks.
  std::vector<LayerRange> per_rank(const std::vector<LayerRange>& stages) const;
};

/// The target's place, then one per drafter. A drafter without ranks of its own is on rank 0.
using Layout = std::vector<ModelPlace>;

/// Whether shares are left to the program: `auto`, `measure` or `bytes`.
bool is_automatic(const std::string& layer_split);

/// The part of `--layer-split` for one model.
struct ModelShares {
  std::vector<double> shares;  ///< per rank
  std::vector<int> groups;     ///< ranks of each stage
};

/// Parses `--layer-split`. Automatic: nothing. Else shares per rank of the target, such as `0.5,0.3,0.2`, and then the shares of each draft
/// after a slash: `0.4,0.4,0.2/1.0`. Ranks joined by `+` share a stage: `0.3+0.2,0.5`. Throws UsageError for anything else.
std::vector<ModelShares> parse_layer_split(const std::string& text);

/// The `--layer-split` for a layout with shares, with its ranks numbered in the order of the models' places.
std::string to_text(const Layout& layout);

/// Assigns `ranks` ranks to the models. With an automatic split, every draft model gets one rank and the target the rest. A draft without
/// ranks of its own (too few ranks, shares only for the target, or `draft_on_head`) is on rank 0; at most one draft can be there. Throws
/// UsageError if the numbers of shares and ranks differ. `heads`, whose models follow the drafts', are on rank 0 unless they have shares.
Layout make_layout(const std::string& layer_split, int ranks, int drafts, bool draft_on_head, int draft_heads = 0);

/// The place of a rank: an index into the layout.
std::size_t place_of(const Layout& layout, int rank);

}  // namespace yamata
