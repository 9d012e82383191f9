#pragma once
// Which ranks draft where the flags leave it open.
#include <vector>

#include "mpi/planning/layout.hpp"

namespace yamata {

/// What is known of a rank before the job is shared out.
struct DrafterCandidate {
  double ns_per_byte = 1;       ///< its time per byte of weights, in units of the fastest rank's
  std::vector<bool> has_model;  ///< 0: the target; 1, 2, ...: the drafts
};

/// Gives drafters a rank each so that the job is fastest: a slow one, for the target to keep the fast ones, but one that can follow. A
/// rank that lacks the target's file comes first. Else the longer of two times decides, that of a stage of the others and that of two
/// guesses; among equals the last rank. Rank 0 leads the target. `draft_costs`: per draft, bytes of weights as a share of the target's.
/// Where files are missing so that this cannot be, drafters stay where `layout` has them.
Layout place_drafters(const Layout& layout, const std::vector<DrafterCandidate>& candidates, const std::vector<double>& draft_costs);

}  // namespace yamata
