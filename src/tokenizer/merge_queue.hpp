#pragma once
// The order in which neighbours are merged.
#include <algorithm>
#include <cstddef>
#include <optional>
#include <queue>
#include <unordered_map>
#include <utility>
#include <vector>

namespace yamata {

/// Possible merges, best first: `Merge` has `priority()`, `left` (its place) and operator<, which is true for the one that comes later:
/// that of less priority, or of the same but further right. In long texts many merges have the same priority, and are proposed from left to
/// right. There, each priority has a list of its own, so that a merge costs the same however long the text is; a heap of them all does not
/// fit into the processor's cache.
template <class Merge>
class MergeQueue {
 public:
  /// `symbols`: of the text.
  explicit MergeQueue(std::size_t symbols) {
    constexpr std::size_t kLong = 1024;  // a heap of so many fits into the first cache
    if (symbols > kLong) lists_.emplace();
  }

  bool empty() const { return lists_ ? lists_->best.empty() : heap_.empty(); }
  void push(const Merge& merge) {
    if (!lists_) return heap_.push(merge);
    Equals& equals = lists_->all[merge.priority()];
    if (equals.empty()) lists_->best.push({merge.priority(), &equals});
    equals.push(merge);
  }
  /// Removes the best merge.
  Merge pop() {
    if (!lists_) {
      const Merge merge = heap_.top();
      heap_.pop();
      return merge;
    }
    Equals& equals = *lists_->best.top().equals;
    const Merge merge = equals.pop();
    if (equals.empty()) lists_->best.pop();
    return merge;
  }

 private:
  /// Merges of the same priority, from left to right.
  class Equals {
   public:
    bool empty() const { return next_ == list_.size() && late_.empty(); }
    void push(const Merge& merge) {
      if (begun_) return late_.push(merge);
      list_.push_back(merge);
    }
    Merge pop() {
      begin();
      const bool late = next_ == list_.size() || (!late_.empty() && late_.top().left < list_[next_].left);
      const Merge merge = late ? late_.top() : list_[next_];
      late ? late_.pop() : static_cast<void>(++next_);
      if (empty()) *this = {};
      return merge;
    }

   private:
    void begin() {
      constexpr auto before = [](const Merge& a, const Merge& b) { return a.left < b.left; };
      if (!begun_ && !std::is_sorted(list_.begin(), list_.end(), before)) std::sort(list_.begin(), list_.end(), before);
      begun_ = true;
    }

    std::vector<Merge> list_;
    std::size_t next_ = 0;
    bool begun_ = false;               // the list is sorted
    std::priority_queue<Merge> late_;  // that came after that
  };
  using Priority = decltype(std::declval<Merge>().priority());
  struct Best {
    Priority priority;
    Equals* equals;
    bool operator<(const Best& other) const { return other.priority < priority; }
  };
  struct Lists {
    std::unordered_map<Priority, Equals> all;
    std::priority_queue<Best> best;  // those that are not empty
  };

  std::priority_queue<Merge> heap_;  // of a short text
  std::optional<Lists> lists_;       // of a long one
};

}  // namespace yamata
