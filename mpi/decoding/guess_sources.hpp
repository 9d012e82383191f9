#pragma once
// All who guess in a job.
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "mpi/decoding/draft_link.hpp"
#include "src/speculation/suffix_source.hpp"

namespace yamata {

/// The sources, in the order in which they were added. They serve one text after the other: what is learnt of them holds for all texts of
/// the job, and a lost drafter stays lost.
class GuessSources {
 public:
  explicit GuessSources(Transport& transport) : transport_(transport) {}

  /// A draft model, or heads; see DraftLink.
  void add_drafter(DraftPlace place, VocabularyMap vocabulary, double relative_cost) {
    auto drafter = std::make_unique<DraftLink>(transport_, next_index(), std::move(place), std::move(vocabulary), relative_cost);
    drafters_.push_back(drafter.get());
    add(std::move(drafter));
  }
  /// The text itself, and the earlier ones in `memory`, which takes what is written.
  void add_suffixes(std::shared_ptr<SuffixMemory> memory = std::make_shared<SuffixMemory>()) {
    add(std::make_unique<SuffixSource>(next_index(), std::move(memory)));
  }
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
  /// Of the drafters on this rank, if there are several, the one that may guess next; nullptr: all may.
  const DraftLink* whose_turn() const {
    std::vector<const DraftLink*> here;
    std::vector<const DraftBalance*> balances;
    for (const DraftLink* drafter : drafters_) {
      if (!drafter->shares_unit()) continue;
      here.push_back(drafter);
      balances.push_back(&drafter->balance());
    }
    return here.size() < 2 ? nullptr : here[yamata::whose_turn(balances)];
  }
  /// A rank is lost, and the drafters that it led.
  void drop(int rank) const {
    for (DraftLink* drafter : drafters_) {
      if (drafter->rank() == rank) drafter->drop();
    }
  }

 private:
  Transport& transport_;
  std::vector<std::unique_ptr<GuessSource>> all_;
  std::vector<DraftLink*> drafters_;
};

}  // namespace yamata
