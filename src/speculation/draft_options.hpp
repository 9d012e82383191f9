#pragma once
// How a drafter searches.
#include <cstdint>

#include "src/speculation/tree_builder.hpp"

namespace yamata {

/// All optima are flat. The figures are relative speeds of speculative and pipeinfer with other values, in the sweep of
/// docs/speculation.md.
struct DraftOptions {
  /// Most nodes that one evaluation of the draft model expands. 1: 0.989, 0.992; 2: 0.999, 0.999; 8: 1, 1.
  std::int32_t width = 4;
  /// Number of guesses per expanded node, the most probable ones. With `depth`, this is the limit if the head waits for the tree, else 4.
  /// 2: 1.004, 0.990; 3: 1.001, 1.005; 8: 1, 1.
  std::int32_t children = 4;
  /// How many guesses may be open at a time; for a dynamic tree for which the head waits, how many are expanded.
  /// 16: 1, 0.980; 32: 1, 0.996; 96: 1, 0.999.
  std::int32_t credit = 48;
  /// Least path probability of an expanded node, by the drafter's calibration; ignored for a tree of a given size.
  /// 0.003: 0.987, 1.002; 0.03: 0.999, 0.993.
  float threshold = 0.01f;
  /// chain: most branches; 0: another policy. The draft's first choices are expanded, and further ones that are more probable than `split`;
  /// while the head waits, first choices only if they are at least as probable as `accept`. All by the draft's own probabilities.
  std::int32_t branches = 0;
  float accept = 0, split = 0;
  /// static-tree: the shape, all of whose places are guessed first; only a root: there is none.
  StaticTree shape{};
  /// dynamic-tree: greatest depth of guesses below the text's last token; 0: unlimited.
  std::int32_t depth = 0;
  /// multi-sequence: most sequences; 0: another policy. `fixed_sequences`: always so many, whatever their probabilities.
  std::int32_t sequences = 0;
  bool fixed_sequences = false;

  /// Cells and sequences beyond those of the text.
  std::int32_t room() const { return credit + shape.width() - 1; }
};

}  // namespace yamata
