#pragma once
// All guess sources of a job.
#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "mpi/decoding/draft_link.hpp"
#include "src/speculation/datastore_source.hpp"
#include "src/speculation/lookahead_source.hpp"
#include "src/speculation/prompt_lookup.hpp"
#include "src/speculation/suffix_source.hpp"

namespace yamata {

/// The sources, in the order in which they were added. They serve one text after another. What is learnt about them is kept for all texts
/// of the job, and a lost drafter stays lost.
class GuessSources {
 public:
  explicit GuessSources(Transport& transport) : transport_(transport) {}

  /// A draft model, or heads; see DraftLink.
  void add_drafter(const DraftPlace& place, const VocabularyMap& vocabulary, double relative_cost) {
    auto drafter = std::make_unique<DraftLink>(transport_, next_index(), place, vocabulary, relative_cost);
    if (!place.one_text && !drafter->shares_unit())
      again([=](GuessSources& other) { other.add_drafter(place, vocabulary, relative_cost); });
    drafters_.push_back(drafter.get());
    add(std::move(drafter));
  }
  /// Guesses from the text itself and from earlier texts in `memory`, to which generated text is added.
  void add_suffixes(const std::shared_ptr<SuffixMemory>& memory = std::make_shared<SuffixMemory>()) {
    add(std::make_unique<SuffixSource>(next_index(), memory));
    again([memory](GuessSources& other) { other.add_suffixes(memory); });
    has_suffixes_ = true;
  }
  /// Guesses from the text itself by prompt lookup decoding; see PromptLookup.
  void add_prompt_lookup(int longest) {
    add(std::make_unique<PromptLookup>(next_index(), longest));
    again([longest](GuessSources& other) { other.add_prompt_lookup(longest); });
  }
  /// Guesses from the texts in `datastore`, which stay as they are; see DatastoreSource.
  void add_datastore(const std::shared_ptr<const SuffixMemory>& datastore) {
    add(std::make_unique<DatastoreSource>(next_index(), datastore));
    again([datastore](GuessSources& other) { other.add_datastore(datastore); });
  }
  /// Lookahead decoding; see LookaheadSource.
  void add_lookahead(const LookaheadOptions& options) {
    add(std::make_unique<LookaheadSource>(next_index(), options));
    again([options](GuessSources& other) { other.add_lookahead(options); });
  }
  /// Sources for another text at the same time: all but drafts of one text, and those that share this rank's unit, which guess only for a
  /// text alone.
  GuessSources for_another_text() const {
    GuessSources others(transport_);
    for (const auto& add : again_) add(others);
    return others;
  }
  bool has_suffixes() const { return has_suffixes_; }
  /// Any other source; its index must be next_index().
  void add(std::unique_ptr<GuessSource> source) { all_.push_back(std::move(source)); }
  int next_index() const { return static_cast<int>(all_.size()); }

  const std::vector<std::unique_ptr<GuessSource>>& all() const { return all_; }
  const std::vector<DraftLink*>& drafters() const { return drafters_; }
  /// The drafter led by a rank whose draft has this number in the plan, or nullptr.
  DraftLink* drafter_on(int rank, int model) const {
    const auto found = std::find_if(drafters_.begin(), drafters_.end(),
                                    [&](const DraftLink* drafter) { return drafter->rank() == rank && drafter->model() == model; });
    return found == drafters_.end() ? nullptr : *found;
  }
  /// Which draft on this rank computes next; null: none, if other ranks draft at the same time and the target's layers can use this rank's
  /// time better. Nothing: there is no choice.
  std::optional<const DraftLink*> whose_turn() const {
    std::vector<const DraftLink*> turns;
    std::vector<const DraftBalance*> balances;
    if (drafts_elsewhere()) {
      turns.push_back(nullptr);
      balances.push_back(&without_);
    }
    for (const DraftLink* drafter : drafters_) {
      if (!drafter->shares_unit()) continue;
      turns.push_back(drafter);
      balances.push_back(&drafter->balance());
    }
    if (turns.size() < 2) return std::nullopt;
    return turns[yamata::whose_turn(balances)];
  }
  /// Whether a drafter is on another rank.
  bool drafts_elsewhere() const {
    return std::any_of(drafters_.begin(), drafters_.end(), [](const DraftLink* d) { return d->alive() && !d->shares_unit(); });
  }
  /// A result became text; `drafted_here`: in this step, a draft on this rank had its turn.
  void step_ended(const TextStep& step, bool drafted_here) {
    if (step.first) without_.begin();
    for (const auto& source : all_) source->step_ended(step);
    if (drafted_here)
      without_.step_of_another();
    else if (!step.first && step.alone_s > 0)
      without_.step({.tokens = step.tokens, .seconds = step.seconds, .token_s = step.alone_s});
  }
  /// A rank is lost, and with it the drafters that it led.
  void drop(int rank) const {
    for (DraftLink* drafter : drafters_) {
      if (drafter->rank() == rank) drafter->drop();
    }
  }

 private:
  void again(std::function<void(GuessSources& other)> add) { again_.push_back(std::move(add)); }

  Transport& transport_;
  std::vector<std::unique_ptr<GuessSource>> all_;
  std::vector<std::function<void(GuessSources& other)>> again_;  // add those that serve another text, too
  std::vector<DraftLink*> drafters_;
  bool has_suffixes_ = false;
  DraftBalance without_;  // of steps in which no draft was computed on this rank
};

}  // namespace yamata
