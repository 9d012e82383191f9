#pragma once
// Guesses from a corpus, as a baseline.
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "src/speculation/guess_source.hpp"
#include "src/speculation/suffix_source.hpp"

namespace yamata {

/// REST (retrieval-based speculative decoding, arXiv 2311.08252): finds the longest end of the text, of at most 16 tokens, that occurs in a
/// datastore, which stays as it is. What followed it there is guessed, as a tree, the most frequent continuations first. SuffixSource also
/// knows the text itself, and chooses the passage by what its continuations promise.
class DatastoreSource final : public GuessSource {
 public:
  DatastoreSource(int index, std::shared_ptr<const SuffixMemory> datastore) : GuessSource(index), datastore_(std::move(datastore)) {}

  std::string name() const override { return "datastore"; }
  void begin(std::uint64_t request) override;
  /// `text` must start with the text of the last call.
  bool guess(TokenTree& tree, std::span<const std::int32_t> text, const GuessDemand& demand) override;

 private:
  void read(std::int32_t token);

  std::shared_ptr<const SuffixMemory> datastore_;
  std::vector<SuffixTrie::Place> places_;  // [n]: where the last n + 1 tokens are in the datastore
  std::size_t read_ = 0;                   // tokens of the text
};

}  // namespace yamata
