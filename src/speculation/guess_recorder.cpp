#include "src/speculation/guess_recorder.hpp"

#include <algorithm>
#include <unordered_map>

namespace yamata {

LevelAccuracies SourceRates::accuracies() const {
  LevelAccuracies accuracies;
  for (const LevelRates& level : levels) {
    auto& shares = accuracies.emplace_back();
    for (const std::uint64_t right : level.right)
      shares.push_back(level.reached > 0 ? static_cast<double>(right) / static_cast<double>(level.reached) : 0);
  }
  return accuracies;
}

void GuessRecorder::begin(std::uint64_t /*request*/) { texts_.emplace_back(); }

void GuessRecorder::learn(const TokenTree& tree, std::int32_t next) {
  Position position{{}, next};
  std::unordered_map<NodeId, std::int32_t> places{{tree.root().id, -1}};
  for (const NodeId id : tree.ids()) {
    if (id == tree.root().id) continue;
    const TreeNode& node = tree.at(id);
    places[id] = static_cast<std::int32_t>(position.guesses.size());
    position.guesses.push_back({places.at(node.parent), node.token, node.probability, node.draft_probabilities});
  }
  texts_.back().push_back(std::move(position));
}

std::vector<SourceRates> GuessRecorder::rates(std::span<const GuessSource* const> sources) const {
  std::vector<SourceRates> all;
  for (std::size_t s = 0; s <= sources.size(); ++s) {
    const GuessSource* const source = s < sources.size() ? sources[s] : nullptr;
    SourceRates& rates = all.emplace_back(SourceRates{source ? source->name() : "all", std::vector<LevelRates>(levels_), {}});
    for (const Text& text : texts_) {
      rates.texts.emplace_back();
      for (std::size_t at = 0; at < text.size(); ++at) count(text, at, source, rates);
    }
  }
  return all;
}

/// Down the true tokens, as far as the source had guessed them.
void GuessRecorder::count(const Text& text, std::size_t at, const GuessSource* source, SourceRates& rates) const {
  struct Candidate {
    float probability;
    std::int32_t guess;
  };
  TrueRanks ranks(levels_, -1);
  std::int32_t parent = -1;
  for (std::size_t level = 0; level < levels_ && at + level < text.size(); ++level) {
    LevelRates& counts = rates.levels[level];
    ++counts.reached;
    std::vector<Candidate> candidates;
    for (std::size_t g = 0; g < text[at].guesses.size(); ++g) {
      const Guess& guess = text[at].guesses[g];
      if (guess.parent != parent) continue;
      float probability = guess.probability;
      if (source) {
        const auto its = std::find_if(guess.of.begin(), guess.of.end(),
                                      [&](const DraftProbability& of) { return of.source == source->calibration().index(); });
        if (its == guess.of.end()) continue;
        probability = its->value;
      }
      candidates.push_back({probability, static_cast<std::int32_t>(g)});
    }
    if (candidates.empty()) break;
    std::stable_sort(candidates.begin(), candidates.end(),
                     [](const Candidate& a, const Candidate& b) { return a.probability > b.probability; });
    ++counts.guessed;
    counts.promised +=
        static_cast<double>(source ? source->calibration().first_choice(candidates[0].probability) : candidates[0].probability);
    const auto right = std::find_if(candidates.begin(), candidates.end(), [&](const Candidate& c) {
      return text[at].guesses[static_cast<std::size_t>(c.guess)].token == text[at + level].next;
    });
    if (right == candidates.end()) break;
    const auto rank = static_cast<std::size_t>(right - candidates.begin());
    if (rank < LevelRates::kChoices) ++counts.right[rank];
    ranks[level] = static_cast<std::int32_t>(rank);
    parent = right->guess;
  }
  rates.texts.back().push_back(std::move(ranks));
}

}  // namespace yamata
