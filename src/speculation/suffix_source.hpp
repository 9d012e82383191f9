#pragma once
// Guesses without a model: what followed when a text last read as this one does now.
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "src/speculation/guess_source.hpp"
#include "src/speculation/suffix_trie.hpp"

namespace yamata {

/// What earlier requests wrote, up to a number of tokens; beyond it the oldest go.
class SuffixMemory {
 public:
  static constexpr std::size_t kTokens = 1 << 16;  ///< some 15 MB

  explicit SuffixMemory(std::size_t most_tokens = kTokens) : most_(most_tokens) {}

  /// A whole text.
  void add(std::span<const std::int32_t> text);
  /// The text at hand grows; it counts from end_text() on.
  void append(std::int32_t token) { text_.push_back(token); }
  void end_text();

  const SuffixTrie& trie() const { return trie_; }
  /// Those that were ended here rather than added, the oldest first, as far as they are remembered.
  std::vector<std::vector<std::int32_t>> own_texts() const;

 private:
  const std::size_t most_;
  SuffixTrie trie_;
  std::vector<std::int32_t> text_;
  std::size_t own_ = 0;  // of the last texts
};

/// Suffix decoding (arXiv 2411.04975): names, code and lists come again word for word, and greedy text of small models does
/// so soon. The longest end of the text that came before, in this text or in an earlier output, says how it goes on, in a tree where it
/// went on in several ways. Where nothing comes again the calibration finds that out as it does with a draft that knows nothing.
class SuffixSource final : public GuessSource {
 public:
  /// What the requests write goes into `memory`.
  explicit SuffixSource(int index, std::shared_ptr<SuffixMemory> memory = std::make_shared<SuffixMemory>())
      : GuessSource(index), memory_(std::move(memory)) {}

  std::string name() const override { return "suffixes"; }
  void begin(std::uint64_t request) override;
  /// `text` is the one of the last call, or that with more at its end.
  bool guess(TokenTree& tree, std::span<const std::int32_t> text, const GuessDemand& demand) override;
  void learn(const TokenTree& tree, std::int32_t next) override;

 private:
  /// Ways to go on after the last `length` tokens.
  struct Match {
    std::vector<SuffixTrie::Continuation> ways;
    std::size_t length = 0;
    float score = 0;
  };
  void read(std::int32_t token);
  Match search() const;
  bool add(TokenTree& tree, const Match& match);

  std::shared_ptr<SuffixMemory> memory_;
  SuffixTrie text_;                            // prompt and output
  std::vector<SuffixTrie::Place> remembered_;  // [n]: where the last n + 1 tokens are in the memory
  std::size_t read_ = 0;                       // tokens of the text
};

}  // namespace yamata
