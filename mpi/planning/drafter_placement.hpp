#pragma once
// Which ranks draft, if the flags leave it open.
#include <vector>

#include "mpi/planning/layout.hpp"

namespace yamata {

/// What is known about a rank before layers are assigned.
struct DrafterCandidate {
  double ns_per_byte = 1;       ///< its time per byte of weights, in units of the fastest rank's
  std::vector<bool> has_model;  ///< 0: the target; 1, 2, ...: the drafts
};

/// Assigns a rank to each drafter so that the job is fastest: a slow rank, so that the target keeps the fast ones, but one that drafts fast
/// enough. A rank without the target's file is preferred. Otherwise the choice minimizes the longer of two times: that of a stage on the
/// other ranks, and that of two guesses; among equals, the last rank is chosen. Rank 0 leads the target. `draft_costs`: per draft, bytes of
/// weights as a share of the target's. If missing files make this impossible, drafters stay as in `layout`.
Layout place_drafters(const Layout& layout, const std::vector<DrafterCandidate>& candidates, const std::vector<double>& draft_costs);

}  // namespace yamata
