#pragma once
// Whether a draft that the text would wait for is made, and how far it searches. Numbers in, a decision out: no clock and no messages.

namespace yamata {

/// What a draft takes, and what it may save, in seconds.
struct DraftTimes {
  double first_s = 0;  ///< until its first guess is there
  double next_s = 0;   ///< from guess to guess
  double row_s = 0;    ///< by which a guess lengthens the run that verifies it
  double token_s = 0;  ///< what a token of the text takes of late
  double alone_s = 0;  ///< what it takes without any guesses
};

/// What a chain of up to `most` guesses saves at best, less what it takes, where each is accepted with probability a after the one before:
/// max over n of sum over k <= n of (a^k alone_s - row_s - next_s), the first with first_s in place of next_s; 0: nothing.
double most_saved_s(const DraftTimes& times, double acceptance, int most);

/// Least path probability of a node for which one more evaluation of the draft, to guess what follows it, is worth its time:
/// (next_s + row_s) / (a token_s).
double least_expanded(const DraftTimes& times, double acceptance);

/// A draft that the text would wait for to its end.
struct DraftCase {
  bool after_prompt = false;  ///< nothing has been measured yet
  bool shares_unit = false;   ///< it takes turns with the target's layers
  double relative_cost = 0;   ///< of an evaluation, in those of the whole target, by the models' sizes
  double acceptance = 0;      ///< expected, of its guesses
  DraftTimes times;           ///< next_s or token_s of 0: not known
  bool costs_more = false;    ///< of late its steps have taken longer than their tokens would have without it
  int most = 0;               ///< guesses of a run
};

struct DraftDecision {
  enum class Kind {
    kLeave,  ///< the text goes on without it
    kProbe,  ///< it does not pay: it is asked for its first guess only, and only if a little time has been put by for that
    kDraft,  ///< it expands nodes from `least` on
  };
  Kind kind = Kind::kLeave;
  float least = 0;  ///< path probability of a node worth an evaluation; 1: the tip alone
};

/// Whether such a draft is made. After the prompt it expands a few nodes, which tells what an evaluation takes, unless it shares the unit
/// and is too large for that by its size alone.
DraftDecision decide_draft(const DraftCase& draft);

}  // namespace yamata
