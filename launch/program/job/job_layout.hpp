#pragma once
// The layout and strategy of a job: what the flags say, what they leave open, and what was chosen.
#include <cstdint>
#include <optional>

#include "launch/program/options/options.hpp"
#include "launch/program/planning/layout_choice.hpp"
#include "mpi/planning/layout.hpp"

namespace yamata {

/// Every rank has one, from its flags; only rank 0 changes it, when all ranks are known.
class JobLayout {
 public:
  /// The numbers on which it depends, besides the flags.
  struct Job {
    int ranks = 1;
    bool several_hosts = false;
    int drafts = 0, draft_heads = 0;  ///< models
  };
  /// `asked`: --strategy, before it was decided. Throws UsageError if the shares of --layer-split do not fit the job.
  JobLayout(const LayoutOptions& options, const Job& job, std::optional<Strategy> asked);

  /// Which rank holds what.
  const Layout& places() const { return places_; }
  Strategy strategy() const { return strategy_; }
  /// --strategy; nothing: auto.
  std::optional<Strategy> asked_strategy() const { return asked_; }
  /// The reason for the layout; nothing if the flags determined it.
  const std::optional<LayoutChoice>& choice() const { return choice_; }
  /// The model of this rank's first part.
  std::size_t model_of(int rank) const { return static_cast<std::size_t>(places_[place_of(places_, rank)].model); }

  /// Whether the planner chooses the layout: with several machines and at most one drafter. With a single machine, the user wants all ranks
  /// to be used. False after the decision.
  bool is_open() const;
  /// Whether the target's layers are divided by the ranks' speeds.
  bool splits_by_speed() const;
  /// Whether the speeds also determine the drafters' ranks.
  bool drafters_are_open() const;
  /// Whether speeds and links are measured even if kept ones hold.
  bool measures_anew() const { return options_.split.by == LayerSplit::By::kMeasuredSpeed; }
  /// Whether the speed of a rank that can hold the target, which has so many layers, must be measured.
  bool needs_speed_of(int rank, std::int64_t layers) const;
  /// Whether the cost of wider runs is measured, too: to choose a layout for a strategy that guesses.
  bool needs_widths() const { return is_open() && strategy_ != Strategy::kIterative; }

  void choose(LayoutChoice choice);
  void place(Layout places) { places_ = std::move(places); }

 private:
  const LayoutOptions options_;
  const Job job_;
  const std::optional<Strategy> asked_;
  Layout places_;
  Strategy strategy_;
  std::optional<LayoutChoice> choice_;
};

}  // namespace yamata
