// What the flags of a job leave open.
#include "launch/program/job/job_layout.hpp"

#include <gtest/gtest.h>

#include "node/error.hpp"

namespace yamata {
namespace {

LayoutOptions options(const std::string& split = "auto") {
  LayoutOptions options;
  options.split = LayerSplit::parse(split);
  options.planned = true;
  options.strategy = Strategy::kPipeInfer;
  return options;
}

JobLayout layout(const LayoutOptions& options, const JobLayout::Job& job) { return {options, job, std::nullopt}; }

TEST(JobLayout, IsOpen_onSeveralHosts_withoutHeadsAndWithAtMostOneDraft) {
  EXPECT_TRUE(layout(options(), {.ranks = 3, .several_hosts = true}).is_open());
  EXPECT_TRUE(layout(options("measure"), {.ranks = 3, .several_hosts = true, .drafts = 1}).is_open());
  EXPECT_FALSE(layout(options(), {.ranks = 3}).is_open());
  EXPECT_FALSE(layout(options(), {.ranks = 4, .several_hosts = true, .drafts = 2}).is_open());
  EXPECT_FALSE(layout(options(), {.ranks = 3, .several_hosts = true, .draft_heads = 1}).is_open());
  for (const char* split : {"bytes", "0.5,0.3,0.2"}) EXPECT_FALSE(layout(options(split), {.ranks = 3, .several_hosts = true}).is_open());
  LayoutOptions unplanned = options();
  unplanned.planned = false;
  EXPECT_FALSE(layout(unplanned, {.ranks = 3, .several_hosts = true}).is_open());
}

TEST(JobLayout, AfterTheChoice_itIsWhatWasChosen) {
  JobLayout open = layout(options(), {.ranks = 2, .several_hosts = true});
  LayoutChoice choice;
  choice.candidate.layout = {{.model = 0, .ranks = {1, 0}, .shares = {0.25, 0.75}}};
  choice.candidate.strategy = Strategy::kIterative;
  choice.why = "it is faster";
  open.choose(choice);
  EXPECT_FALSE(open.is_open());
  EXPECT_EQ(open.strategy(), Strategy::kIterative);
  EXPECT_EQ(open.places().front().ranks, (std::vector<int>{1, 0}));
  EXPECT_EQ(open.choice()->why, "it is faster");
}

TEST(JobLayout, Speeds_areNeededOfRanksThatMayHoldTheTarget) {
  const JobLayout fixed = layout(options("bytes"), {.ranks = 3});
  const JobLayout by_speed = layout(options(), {.ranks = 3, .draft_heads = 1});
  const JobLayout drafting = layout(options(), {.ranks = 3, .drafts = 1});
  EXPECT_FALSE(fixed.needs_speed_of(1, 10));
  EXPECT_TRUE(by_speed.needs_speed_of(2, 10));
  EXPECT_FALSE(by_speed.needs_speed_of(2, 2));  // fewer layers than ranks
  EXPECT_TRUE(drafting.drafters_are_open());
  EXPECT_TRUE(drafting.needs_speed_of(2, 10));
  EXPECT_EQ(drafting.model_of(2), 1u);
  EXPECT_EQ(drafting.model_of(0), 0u);
}

TEST(JobLayout, WiderRuns_areMeasuredForTheChoiceOfALayoutThatGuesses) {
  LayoutOptions iterative = options();
  iterative.strategy = Strategy::kIterative;
  EXPECT_TRUE(layout(options(), {.ranks = 2, .several_hosts = true}).needs_widths());
  EXPECT_FALSE(layout(options(), {.ranks = 2}).needs_widths());
  EXPECT_FALSE(layout(iterative, {.ranks = 2, .several_hosts = true}).needs_widths());
}

TEST(JobLayout, SharesOfAnotherNumberOfRanks_areRefused) { EXPECT_THROW(layout(options("0.5,0.5"), {.ranks = 3}), UsageError); }

}  // namespace
}  // namespace yamata
