#pragma once
// Texts that stay in the cache after they have ended, so that the next one with the same beginning need not compute it again.
#include <cstdint>
#include <span>
#include <vector>

#include "cache/cell_table.hpp"
#include "mpi/decoding/tree_runs.hpp"
#include "mpi/pipeline/pipeline.hpp"

namespace yamata {

/// Each text has a sequence of its own, whose cells it shares with others of the same beginning. All changes are operations of the ordered
/// stream, so every stage shares its own layers' cells. Layers with a sliding window reuse the cells before their window: there only the
/// last text stays, and it serves a text that continues all of it.
class PrefixCache {
 public:
  /// `sequences`: for texts that have ended; empty: none stay. `windows`: some layers reuse cells.
  PrefixCache(Pipeline& pipeline, SequenceRange sequences, bool windows);

  /// The longest beginning of `prompt` that is there, but not all of the prompt: its last token must be computed. Before anything of the
  /// new text is placed. `reuse`: false: there is none.
  CachedBeginning find(std::span<const std::int32_t> prompt, bool reuse);
  /// Keeps the first `computed` tokens of a text, which are in sequence `from`. `whole`: it was not ended from outside.
  void keep(std::span<const std::int32_t> text, std::size_t computed, std::int32_t from, bool whole);
  /// Removes the texts that have not been used for the longest time until so many cells are free, or none is left.
  void make_room(std::int32_t cells);

 private:
  struct Kept {
    std::vector<std::int32_t> tokens;
    std::int32_t sequence;
  };
  void drop(std::size_t index);
  void send(const CacheOperation& operation);

  Pipeline& pipeline_;
  const bool windows_;
  std::vector<Kept> kept_;          // the one used last is at the end
  std::vector<std::int32_t> free_;  // sequences
};

}  // namespace yamata
