#pragma once
// Whether a draft for which the text would wait is used, and how far it searches. Pure functions of numbers, without clock or messages.

namespace yamata {

/// The times of a draft, and of what it may save, in seconds.
struct DraftTimes {
  double first_s = 0;  ///< until its first guess arrives
  double next_s = 0;   ///< from guess to guess
  double row_s = 0;    ///< how much a guess lengthens the run that verifies it
  double token_s = 0;  ///< recent time of a token of the text
  double alone_s = 0;  ///< time of a token without any guesses
};

/// How often a draft's guesses are accepted.
struct DraftRate {
  double acceptance = 0;  ///< a: of a guess after accepted ones, where no other source has guessed the token
  double open = 1;        ///< o: probability that no other source has guessed the next token
};

/// The greatest net saving of a chain of up to `most` guesses: max over n of sum over k <= n of (o a^k alone_s - row_s - next_s), with
/// first_s instead of next_s for the first; 0: no saving.
double most_saved_s(const DraftTimes& times, const DraftRate& rate, int most);

/// The least path probability of a node for which an evaluation of the draft, to guess its children, is worth its time: (next_s + row_s) /
/// (o a token_s).
double least_expanded(const DraftTimes& times, const DraftRate& rate);

/// A draft for which the text would wait until it is complete.
struct DraftCase {
  bool after_prompt = false;  ///< nothing has been measured yet
  bool shares_unit = false;   ///< it takes turns with the target's layers
  double relative_cost = 0;   ///< cost of an evaluation relative to one of the whole target, by the models' sizes
  DraftRate rate;             ///< expected
  DraftTimes times;           ///< next_s or token_s of 0: not known
  bool costs_more = false;    ///< recently, its steps took longer than their tokens would have taken without it
  int most = 0;               ///< guesses of a run
};

struct DraftDecision {
  enum class Kind {
    kLeave,  ///< it is not used
    kProbe,  ///< it costs more than it saves: it is asked only for its first guess, and only if its ProbeBudget allows it
    kDraft,  ///< it expands nodes from `least` on
  };
  Kind kind = Kind::kLeave;
  float least = 0;  ///< path probability of a node worth an evaluation; 1: the root alone
};

/// Whether such a draft is used. After the prompt it expands a few nodes, to measure an evaluation, unless it shares the unit and its size
/// alone shows that it is too large.
DraftDecision decide_draft(const DraftCase& draft);

}  // namespace yamata
