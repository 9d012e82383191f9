#pragma once
// Which text's tokens run next, if several texts share the target's pipeline.
#include <cstdint>
#include <span>

#include "mpi/decoding/decoder.hpp"

namespace yamata {

/// Iteration-level scheduling (Orca, OSDI 2022). Whenever the first stage is free, and no run would have to wait at a later one, a run goes
/// to it, in this order:
///
/// 1. the last tokens of texts, which are certain work, those that wait for the longest time first. With several stages, only as many share
///    a run as leave as many runs as the pipeline holds, so that no stage waits. A part of a prompt goes with them, or alone: while texts
///    grow, so much that their run takes about twice its time.
/// 2. guesses of one text.
///
/// Guesses may also ride with their text's last token, if they are worth a row there at the speed of all texts together.
class Scheduler {
 public:
  /// `batch`: most tokens of a part of a prompt.
  Scheduler(Target& target, std::int32_t batch) : target_(target), batch_(batch) {}

  /// Sends what can be sent now for these texts; true if anything was.
  bool send(std::span<Decoder* const> texts);

 private:
  bool may_send(int depth) const;
  int depth(std::span<Decoder* const> texts) const;
  bool send_text(std::span<Decoder* const> texts, int depth);
  bool add_roots(std::span<Decoder* const> texts, int depth);
  bool add_prompts(std::span<Decoder* const> texts);
  bool send_guesses(std::span<Decoder* const> texts);
  std::int32_t prompt_rows(std::int32_t growing) const;

  Target& target_;
  const std::int32_t batch_;
  std::uint64_t turn_ = 0;  // of texts with prompts and guesses
};

}  // namespace yamata
