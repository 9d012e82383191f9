#pragma once
// A drafter: follows texts and sends guesses without being asked for each (PipeInfer, "asynchronous speculation").
#include <memory>
#include <vector>

#include "mpi/decoding/drafted_text.hpp"
#include "mpi/decoding/prefix_cache.hpp"

namespace yamata {

/// A state machine on the first rank of a draft model. It never blocks. As many texts at a time as the head has slots; their evaluations
/// share the draft's runs, as the texts' tokens do those of the target. If the cache is too small for all, some texts are without guesses.
class Drafter {
 public:
  /// The sequences of the draft's cache.
  struct Sequences {
    std::vector<SequenceRange> texts;  ///< of each text
    SequenceRange kept{0, 0};          ///< for texts that stay in the cache; empty: none stay
  };
  Drafter(Transport& transport, std::unique_ptr<Pipeline> pipeline, const Drafting& drafting, const Sequences& sequences);

  /// A text has grown, begins or is over. Throws ClusterError if it does not continue the known text.
  void on_commit(const wire::Commit& commit);
  /// Does what is possible now; true if anything happened.
  bool advance();
  Pipeline& pipeline() { return *pipeline_; }
  /// Time in which it read logits and chose guesses.
  double candidates_s() const;

 private:
  DraftedText* find(std::uint64_t request);
  void begin(const wire::Commit& commit);
  void end(DraftedText& text);
  bool receive();
  void push_guesses();
  bool send_run();
  bool may_send(const DraftedText& text) const;

  Transport& transport_;
  std::unique_ptr<Pipeline> pipeline_;
  Batcher batcher_;
  const Drafting drafting_;
  const std::int32_t most_rows_;  // of a run
  PrefixCache cache_;
  std::vector<std::unique_ptr<DraftedText>> texts_;  // one per slot
  std::size_t turn_ = 0;                             // the text that comes first in the next run
};

}  // namespace yamata
