#pragma once
// Guesses without a model: what followed earlier passages that match the end of the text.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "src/speculation/guess_source.hpp"
#include "src/speculation/suffix_trie.hpp"

namespace yamata {

/// The output of earlier requests, up to a number of tokens; the oldest texts are removed first. Texts that are generated at the same time
/// may share it.
class SuffixMemory {
 public:
  static constexpr std::size_t kTokens = 1 << 16;  ///< some 15 MB

  explicit SuffixMemory(std::size_t most_tokens = kTokens) : most_(most_tokens) {}

  /// From now on it may hold this many tokens, if that is more than before.
  void hold(std::size_t tokens) { most_ = std::max(most_, tokens); }
  /// Adds a whole text.
  void add(std::span<const std::int32_t> text);
  /// Adds a text that has been generated.
  void add_own(std::span<const std::int32_t> text);

  const SuffixTrie& trie() const { return trie_; }
  /// Grows whenever the trie has changed: then places in it are no longer valid.
  std::uint64_t changes() const { return changes_; }
  /// The remembered texts that were generated, the oldest first.
  std::vector<std::vector<std::int32_t>> own_texts() const;

 private:
  std::size_t most_;
  SuffixTrie trie_;
  std::uint64_t changes_ = 0;
  std::size_t own_ = 0;  // of the last texts
};

/// Suffix decoding (arXiv 2411.04975): names, code and lists repeat word for word, and so does greedy text of small models. A suffix of the
/// text that occurred before, in this text or in an earlier output, predicts the next tokens, as a tree if several continuations followed
/// it. If nothing repeats, the calibration learns this, as with a useless draft.
class SuffixSource final : public GuessSource {
 public:
  /// The output of requests is added to `memory`.
  explicit SuffixSource(int index, std::shared_ptr<SuffixMemory> memory = std::make_shared<SuffixMemory>())
      : GuessSource(index), memory_(std::move(memory)) {}

  std::string name() const override { return "suffixes"; }
  void begin(std::uint64_t request) override;
  /// `text` must start with the text of the last call.
  bool guess(TokenTree& tree, std::span<const std::int32_t> text, const GuessDemand& demand) override;
  void learn(const TokenTree& tree, std::int32_t next) override;
  /// Its tokens go to the memory.
  void end() override;

 private:
  /// Continuations after the last `length` tokens.
  struct Match {
    std::vector<SuffixTrie::Continuation> ways;
    std::size_t length = 0;
    float score = 0;
  };
  void read(std::int32_t token);
  void find_again();
  Match search() const;
  bool add(TokenTree& tree, const Match& match);

  std::shared_ptr<SuffixMemory> memory_;
  SuffixTrie text_;                            // prompt and output
  std::vector<SuffixTrie::Place> remembered_;  // [n]: where the last n + 1 tokens are in the memory
  std::uint64_t changes_ = 0;                  // of the memory, when these were found
  std::size_t read_ = 0;                       // tokens of the text
  std::vector<std::int32_t> generated_;        // without the prompt
};

}  // namespace yamata
