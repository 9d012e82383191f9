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
/// stream, so every stage shares its own layers' cells. Layers with a sliding window reuse the cells before it, and states cannot be cut:
/// there, checkpoints stay, which are texts and beginnings of texts, and another text goes on where one of them ends.
class PrefixCache {
 public:
  /// What stays of a text: its tokens' cells, or checkpoints.
  enum class Kind { kCells, kCheckpoints };
  /// Of a prompt, there is a checkpoint every so many tokens, if there is memory for it.
  static constexpr std::size_t kInterval = 512;

  /// `sequences`: for texts that have ended, or for checkpoints; empty: none stay. `window`: of layers with a window and no states: another
  /// text may also go on before the end of a checkpoint that is shorter than this.
  PrefixCache(Pipeline& pipeline, SequenceRange sequences, Kind kind, std::int32_t window = 0);

  /// The length of the longest beginning of `prompt` that is there, but not all of the prompt: its last token must be computed.
  std::size_t longest(std::span<const std::int32_t> prompt) const { return best(prompt).tokens; }
  /// That beginning. Before anything of the new text is placed. `reuse`: false: there is none.
  CachedBeginning find(std::span<const std::int32_t> prompt, bool reuse);
  /// kCells: keeps the first `computed` tokens of a text, which are in sequence `from`.
  void keep(std::span<const std::int32_t> text, std::size_t computed, std::int32_t from);

  /// Whether anything may stay.
  bool keeps_any() const { return !free_.empty() || !kept_.empty(); }
  bool has_checkpoints() const { return kind_ == Kind::kCheckpoints; }
  /// Keeps a text in sequence `from` as a checkpoint, when its last token has been sent and no later one. `whole`: a prompt, or a text that
  /// has ended; else a beginning, for which no other checkpoint is removed. It is not found before its tokens are known to be computed.
  void keep_checkpoint(std::span<const std::int32_t> text, std::int32_t from, bool whole);
  /// All stages have computed so many tokens of the text in this sequence.
  void text_computed(std::int32_t sequence, std::size_t tokens);
  /// The text in this sequence is over: its checkpoints of more tokens than were computed are removed.
  void text_ended(std::int32_t sequence);
  /// Whether layers have all of a text of so many tokens, so that another text may go on at any of them.
  bool has_all_of(std::size_t tokens) const { return kind_ == Kind::kCells || tokens < window_; }

  /// Removes the texts that have not been used for the longest time until so many cells are free, or none is left.
  void make_room(std::int32_t cells);

 private:
  static constexpr std::int32_t kNone = -1;
  struct Kept {
    std::vector<std::int32_t> tokens;
    std::int32_t sequence;
    bool whole = true;
    std::int32_t computed_in = kNone;  // the sequence of the text that still computes it; kNone: it is computed
  };
  struct Beginning {
    std::size_t index, tokens = 0;  // of `kept_`, if there are any tokens
  };
  Beginning best(std::span<const std::int32_t> prompt) const;
  void drop(std::size_t index);
  void add(Kept kept, std::int32_t from);
  void send(const CacheOperation& operation);

  Pipeline& pipeline_;
  const Kind kind_;
  const std::size_t window_;
  std::vector<Kept> kept_;          // the one used last is at the end
  std::vector<std::int32_t> free_;  // sequences
};

}  // namespace yamata
