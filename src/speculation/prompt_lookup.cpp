#include "src/speculation/prompt_lookup.hpp"

#include <algorithm>

namespace yamata {
namespace {

constexpr std::size_t kLongest = 16;      // tokens of a passage that are compared
constexpr std::size_t kMostTried = 1024;  // earlier places, the latest first
constexpr std::size_t kDeepest = 32;      // guesses of one call
constexpr float kLeast = 0.01f;           // path probability worth a guess

/// The longer the passage, the likelier it goes on as before: as if each of its tokens had been an acceptance, beside three rejections.
float draft_probability(std::size_t length) { return static_cast<float>(length) / static_cast<float>(length + 3); }

}  // namespace

void PromptLookup::begin(std::uint64_t /*request*/) {
  after_.clear();
  indexed_ = 0;
}

bool PromptLookup::guess(TokenTree& tree, std::span<const std::int32_t> text, const GuessDemand& /*demand*/) {
  for (; indexed_ + 1 < text.size(); ++indexed_) after_[text[indexed_]].push_back(indexed_ + 1);
  const Passage passage = find(text);
  NodeId node = tree.root().id;
  bool grown = false;
  std::vector<std::int32_t> guesses;
  for (std::size_t i = 0; passage.length > 0 && i < kDeepest && tree.at(node).path_probability >= kLeast; ++i) {
    const std::size_t at = passage.end + i;  // a passage that overlaps what follows it goes on in the guesses themselves
    guesses.push_back(at < text.size() ? text[at] : guesses[at - text.size()]);
    const NodeId known = tree.child(node, guesses.back());
    if (known != kNoNode && calibration_.guessed(tree, known)) {
      node = known;
    } else {
      node = calibration_.add(tree, node, guesses.back(), draft_probability(std::min(passage.length + i, kLongest)));
      grown = true;
    }
  }
  return grown;
}

/// The latest of the longest.
PromptLookup::Passage PromptLookup::find(std::span<const std::int32_t> text) const {
  Passage best;
  const auto places = after_.find(text.back());
  if (places == after_.end()) return best;
  std::size_t tried = 0;
  for (auto end = places->second.rbegin(); end != places->second.rend() && tried < kMostTried && best.length < kLongest; ++end, ++tried) {
    std::size_t length = 1;
    while (length < std::min(kLongest, *end) && text[*end - 1 - length] == text[text.size() - 1 - length]) ++length;
    if (length > best.length) best = {*end, length};
  }
  return best;
}

}  // namespace yamata
