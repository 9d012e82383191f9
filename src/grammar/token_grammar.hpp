#pragma once
// Which tokens may follow a text, so that it becomes what a schema allows.
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "src/grammar/grammar_reader.hpp"
#include "src/grammar/grammar_vocabulary.hpp"

namespace yamata {

/// States are numbers that stay valid, so each token of a text and each guess can have its own. What is found is kept, so a grammar serves
/// many texts, but one thread at a time.
class TokenGrammar {
 public:
  using State = std::uint32_t;
  static constexpr State kForbidden = 0;  ///< no text of the schema begins like this

  TokenGrammar(std::shared_ptr<const GrammarVocabulary> vocabulary, ByteAutomaton automaton);

  State start() const { return start_; }
  /// The state after a token; kForbidden if it may not follow. Like all that read on, throws UsageError if the schema needs too many
  /// states.
  State after(State state, std::int32_t token);
  /// The same for a guess: kForbidden also where after() throws.
  State after_guess(State state, std::int32_t token);
  /// The state after all of these tokens from the start on; kForbidden as in after_guess.
  State after_all(std::span<const std::int32_t> tokens);
  bool allows(State state, std::int32_t token);
  /// The text may end here.
  bool accepting(State state) const;
  /// Nothing but the end may follow.
  bool complete(State state);
  /// Sets the logits of tokens that may not follow to minus infinity. If `read` is above 0, perhaps others, too, but not the `read` highest
  /// of those that may follow. Throws UsageError if no token may follow.
  void restrict(State state, std::span<float> logits, std::size_t read);
  /// A bit for each token that may follow.
  const std::vector<std::uint64_t>& mask(State state);

  const GrammarVocabulary& vocabulary() const { return *vocabulary_; }
  GrammarReader& reader() { return reader_; }
  /// Where a state stands; not for the state after the end.
  GrammarReader::Place place(State state) const { return reader_.at(state); }
  /// The text has ended with a token that says so.
  static bool ended(State state) { return state == kEnded; }

 private:
  static constexpr State kEnded = ~State{0};
  bool read(GrammarReader::Place& place, const GrammarToken& token);
  std::vector<std::uint64_t> find_mask(State state);
  bool keep_best(State state, std::span<float> logits, std::size_t read);

  std::shared_ptr<const GrammarVocabulary> vocabulary_;
  GrammarReader reader_;
  State start_;
  std::unordered_map<State, std::vector<std::uint64_t>> masks_;
};

}  // namespace yamata
