#include "src/speculation/suffix_source.hpp"

#include <algorithm>
#include <utility>

namespace yamata {
namespace {

constexpr std::size_t kMaxGuesses = 32;            // guesses of one call
constexpr std::size_t kPerToken = 4, kAnyway = 1;  // a passage of n tokens is good for kPerToken n + kAnyway guesses
constexpr float kMinProbability = 0.01f;           // path probability worth a guess
constexpr std::size_t kLongest = 16;               // tokens of a passage that make it surer

/// A source's own probability: how often the token followed, less where the passage is short. As if each token of the passage had been an
/// acceptance, beside two rejections.
float draft_probability(float followed, std::size_t length) {
  const float sure = static_cast<float>(std::min(length, kLongest));
  return followed * sure / (sure + 2);
}

}  // namespace

void SuffixMemory::add(std::span<const std::int32_t> text) {
  text = text.last(std::min(text.size(), most_));
  if (text.empty()) return;
  while (trie_.texts() > 0 && trie_.tokens() + text.size() > most_) trie_.forget_oldest();
  trie_.begin_text();
  for (const std::int32_t token : text) trie_.append(token);
  ++changes_;
}

void SuffixMemory::add_own(std::span<const std::int32_t> text) {
  if (text.empty()) return;
  add(text);
  own_ = std::min(own_ + 1, trie_.texts());
}

std::vector<std::vector<std::int32_t>> SuffixMemory::own_texts() const {
  std::vector<std::vector<std::int32_t>> texts;
  for (std::size_t n = trie_.texts() - own_; n < trie_.texts(); ++n) texts.push_back(trie_.text(n));
  return texts;
}

void SuffixSource::begin(std::uint64_t /*request*/) {
  end();
  text_ = SuffixTrie();
  text_.begin_text();
  remembered_.clear();
  changes_ = memory_->changes();
  read_ = 0;
}

void SuffixSource::learn(const TokenTree& tree, std::int32_t next) {
  GuessSource::learn(tree, next);
  generated_.push_back(next);
}

void SuffixSource::end() {
  memory_->add_own(generated_);
  generated_.clear();
}

/// A passage that the memory has ends with one that it has, too.
void SuffixSource::read(std::int32_t token) {
  text_.append(token);
  remembered_.insert(remembered_.begin(), SuffixTrie::Place{});
  std::size_t known = 0;
  while (known < remembered_.size() && memory_->trie().step(remembered_[known], token)) ++known;
  remembered_.resize(known);
}

/// The places in the memory, if another text has been added to it.
void SuffixSource::find_again() {
  if (std::exchange(changes_, memory_->changes()) == memory_->changes()) return;
  const std::vector<std::int32_t>& text = text_.text(0);
  remembered_.clear();
  while (remembered_.size() < std::min(read_, SuffixTrie::kDepth)) {
    SuffixTrie::Place place;
    const auto passage = std::span(text).last(remembered_.size() + 1);
    if (!std::ranges::all_of(passage, [&](std::int32_t token) { return memory_->trie().step(place, token); })) break;
    remembered_.push_back(place);
  }
}

/// The passage, here or in the memory, whose ways to go on promise most together; of equal ones the longest.
SuffixSource::Match SuffixSource::search() const {
  Match best;
  const auto consider = [&](const SuffixTrie& trie, SuffixTrie::Place place, std::size_t length) {
    const std::size_t most = std::min(kMaxGuesses, kPerToken * length + kAnyway);
    if (static_cast<float>(most) * trie.likeliest(place) <= best.score) return;
    Match match{trie.continue_from(place, most, kMinProbability), length, 0};
    for (const auto& way : match.ways) match.score += way.path_probability;
    if (match.score > best.score) best = std::move(match);
  };
  for (std::size_t length = std::max(text_.open(), remembered_.size()); length > 0; --length) {
    if (length <= text_.open()) consider(text_, text_.end(length), length);
    if (length <= remembered_.size()) consider(memory_->trie(), remembered_[length - 1], length);
  }
  return best;
}

bool SuffixSource::add(TokenTree& tree, const Match& match) {
  bool grown = false;
  std::vector<NodeId> nodes;
  std::vector<std::size_t> lengths;
  for (const auto& way : match.ways) {
    const NodeId parent = way.parent < 0 ? tree.root().id : nodes[static_cast<std::size_t>(way.parent)];
    const std::size_t length = way.parent < 0 ? match.length : lengths[static_cast<std::size_t>(way.parent)] + 1;
    lengths.push_back(length);
    nodes.push_back(kNoNode);
    if (parent == kNoNode || tree.at(parent).path_probability < kMinProbability) continue;
    NodeId& node = nodes.back();
    node = tree.child(parent, way.token);
    if (node != kNoNode && calibration_.guessed(tree, node)) continue;
    node = calibration_.add(tree, parent, way.token, draft_probability(way.probability, length));
    grown = true;
  }
  return grown;
}

bool SuffixSource::guess(TokenTree& tree, std::span<const std::int32_t> text, const GuessDemand& /*demand*/) {
  find_again();
  for (; read_ < text.size(); ++read_) read(text[read_]);
  return add(tree, search());
}

}  // namespace yamata
