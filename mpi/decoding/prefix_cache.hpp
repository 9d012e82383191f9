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
/// last text stays, and it serves a text that continues all of it. So do texts in layers with states, each of which has a state.
class PrefixCache {
 public:
  /// What stays of a text: its tokens' cells; all that is in layers with a window; the state after its last token.
  enum class Kind { kCells, kWindows, kStates };
  /// A beginning of a prompt stays every so many tokens, if there is a state for it.
  static constexpr std::size_t kStateInterval = 512;

  /// `sequences`: for texts that have ended; empty: none stay.
  PrefixCache(Pipeline& pipeline, SequenceRange sequences, Kind kind);

  /// The longest beginning of `prompt` that is there, but not all of the prompt: its last token must be computed. Before anything of the
  /// new text is placed. `reuse`: false: there is none.
  CachedBeginning find(std::span<const std::int32_t> prompt, bool reuse);
  /// Keeps the first `computed` tokens of a text, which are in sequence `from`. `whole`: it was not ended from outside.
  void keep(std::span<const std::int32_t> text, std::size_t computed, std::int32_t from, bool whole);
  /// kStates: keeps a text in sequence `from`, directly after the run that computes its last token. `whole`: a prompt or a text that has
  /// ended; else a beginning, for which no other text is removed.
  void keep_state(std::span<const std::int32_t> text, std::int32_t from, bool whole);
  /// kStates: removes beginnings of this text that are longer than what is computed of it.
  void forget_beyond(std::span<const std::int32_t> text, std::size_t computed);
  bool keeps_states() const { return kind_ == Kind::kStates; }
  /// Removes the texts that have not been used for the longest time until so many cells are free, or none is left.
  void make_room(std::int32_t cells);

 private:
  struct Kept {
    std::vector<std::int32_t> tokens;
    std::int32_t sequence;
    bool whole = true;
  };
  void drop(std::size_t index);
  void add(std::span<const std::int32_t> text, std::int32_t from, bool whole);
  void send(const CacheOperation& operation);

  Pipeline& pipeline_;
  const Kind kind_;
  std::vector<Kept> kept_;          // the one used last is at the end
  std::vector<std::int32_t> free_;  // sequences
};

}  // namespace yamata
