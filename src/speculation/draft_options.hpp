#pragma once
// How a drafter searches.
#include <cstdint>

#include "src/speculation/tree_builder.hpp"

namespace yamata {

/// Flat optima all: the figures are speeds with other values, as shares, of speculative and pipeinfer in the sweep of docs/speculation.md.
struct DraftOptions {
  /// Most nodes that one evaluation of the draft model expands. 1: 0.989, 0.992; 2: 0.999, 0.999; 8: 1, 1.
  std::int32_t width = 4;
  /// Guesses per expanded node, the most probable ones; with `depth` the most, where somebody waits for the tree, else 4.
  /// 2: 1.004, 0.990; 3: 1.001, 1.005; 8: 1, 1.
  std::int32_t children = 4;
  /// Guesses that may be open at a time; of a dynamic tree that somebody waits for, those that are expanded.
  /// 16: 1, 0.980; 32: 1, 0.996; 96: 1, 0.999.
  std::int32_t credit = 48;
  /// Least path probability, in the draft's own view, worth expanding; any is in a tree of a given size.
  /// 0.003: 0.987, 1.002; 0.03: 0.999, 0.993.
  float threshold = 0.01f;
  /// static-tree: the shape, of which every place is guessed before anything else; its root alone: there is none.
  StaticTree shape{};
  /// dynamic-tree: how far below the text's last token guesses are taken; 0: however far.
  std::int32_t depth = 0;

  /// Cells and sequences beyond those of the text.
  std::int32_t room() const { return credit + shape.width() - 1; }
};

}  // namespace yamata
