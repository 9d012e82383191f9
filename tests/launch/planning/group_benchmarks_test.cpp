// The groups that are benchmarked, and the results that are kept.
#include "launch/program/planning/group_benchmarks.hpp"

#include <gtest/gtest.h>

#include "src/model/weights.hpp"
#include "tests/paths.hpp"
#include "tests/temporary_folder.hpp"

namespace yamata {
namespace {

using Groups = std::vector<std::vector<int>>;

class GroupBenchmarksTest : public testing::Test {
 protected:
  static std::vector<PlannedHost> hosts(const std::vector<double>& ns_per_byte) {
    std::vector<PlannedHost> hosts;
    for (const double ns : ns_per_byte) hosts.push_back({.name = "h" + std::to_string(hosts.size()), .ns_per_byte = ns});
    return hosts;
  }
  /// The result of a group whose computing time is `computing` times the prediction from its members' speeds.
  GroupTime took(std::span<const PlannedHost> hosts, std::vector<int> ranks, double computing, double exchange_s) const {
    GroupTime time{.ranks = std::move(ranks), .computing_s = 1, .exchange_s = exchange_s};
    GroupRecord nowhere;
    nowhere.bytes = record_.bytes;
    time.computing_s = computing / group_costs(target_, hosts, std::vector{time}, nowhere).front().computing;
    return time;
  }
  /// The results of all requested groups, which all have these times.
  std::vector<GroupTime> play(std::span<const PlannedHost> hosts, double computing, double exchange_s) const {
    std::vector<GroupTime> times;
    while (const auto group = next_group(target_, hosts, times, record_))
      times.push_back(took(hosts, {group->ranks.begin(), group->ranks.end()}, computing, exchange_s));
    return times;
  }

  const ModelFile target_ = ModelFile::open(test::source_path("/models/tales-target-q8_0.gguf"));
  test::TemporaryFolder parent_;
  GroupRecord record_{parent_ / "kept", 1'800'000'000};
};

TEST_F(GroupBenchmarksTest, Groups_areOfAllTwoAndFourThatAreNear) {
  auto all = hosts({2, 1, 4, 3, 2});
  EXPECT_EQ(groups_to_benchmark(target_, all), (Groups{{0, 1, 3, 4}, {0, 1}})) << "four is the most that can share this model";
  EXPECT_EQ(groups_to_benchmark(target_, hosts({1, 1, 1})), (Groups{{0, 1, 2}, {0, 1}}));
  EXPECT_EQ(groups_to_benchmark(target_, hosts({1, 1})), (Groups{{0, 1}}));
  all[4].link = simulation::NetworkOptions{.latency = 25'000'000};
  EXPECT_EQ(groups_to_benchmark(target_, all), (Groups{{0, 1}})) << "those with the far one are slow whatever they take";
  EXPECT_EQ(why_no_group(target_, all), "");
  all[1].link = all[4].link;
  EXPECT_TRUE(groups_to_benchmark(target_, all).empty());
  EXPECT_EQ(why_no_group(target_, all), "messages between the fastest machines take more than 2 ms");
  EXPECT_TRUE(groups_to_benchmark(target_, hosts({1})).empty());
  EXPECT_TRUE(groups_to_benchmark(target_, {}).empty());
}

TEST_F(GroupBenchmarksTest, Members_shareBySpeedAndRunsAreFewWhereALayerIsLong) {
  const auto group = next_group(target_, hosts({2, 1}), {}, record_);
  ASSERT_TRUE(group);
  EXPECT_EQ(group->shares, (std::vector<double>{0.5, 1}));
  EXPECT_EQ(group->layer, target_.h.layers / 2);
  EXPECT_EQ(group->layers, 1);
  EXPECT_EQ(group->runs, 17);
  EXPECT_EQ(next_group(target_, hosts({2e4, 1e4}), {}, record_)->runs, 5);
}

TEST_F(GroupBenchmarksTest, EachMember_hasMoreWeightsThanItsCachesKeep) {
  const std::size_t layer = layer_bytes(target_.file, target_.h, target_.h.layers / 2);
  record_.bytes = layer;
  const auto pair = next_group(target_, hosts({1, 1}), {}, record_);
  EXPECT_EQ(pair->layers, 2) << "half of each";
  const auto all = next_group(target_, hosts({1, 1, 1, 1}), {}, record_);
  EXPECT_EQ(all->ranks.size(), 4u);
  EXPECT_EQ(all->layers, 4);
  record_.bytes = 1000 * layer;
  const auto most = next_group(target_, hosts({1, 1}), {}, record_);
  EXPECT_EQ(most->layer, 0);
  EXPECT_EQ(most->layers, target_.h.layers) << "there are no more";
  EXPECT_EQ(most->runs, 17);
  EXPECT_EQ(next_group(target_, hosts({1e3, 1e3}), {}, record_)->runs, 5) << "longer ones";
  const auto machines = hosts({1, 1});
  const GroupTime time = took(machines, {0, 1}, 1.2, 3e-4);
  EXPECT_NEAR(group_costs(target_, machines, std::vector{time}, record_).front().computing, 1.2, 1e-9);
}

TEST_F(GroupBenchmarksTest, WhatIsKept_isCheckedByOneGroupAndStays) {
  const auto machines = hosts({1, 1, 1});
  const auto first = play(machines, 1.2, 3e-4);
  EXPECT_EQ(first.size(), 2u);
  const auto costs = group_costs(target_, machines, first, record_);
  ASSERT_EQ(costs.size(), 2u);
  EXPECT_NEAR(costs[0].computing, 1.2, 1e-9);

  EXPECT_EQ(next_group(target_, machines, {}, record_)->runs, 3) << "to see whether it holds";
  const auto again = play(machines, 1.5, 2.5e-4);
  EXPECT_EQ(again.size(), 1u) << "within a third";
  const auto kept = group_costs(target_, machines, again, record_);
  ASSERT_EQ(kept.size(), 2u) << "of both groups";
  EXPECT_NEAR(kept[0].computing, 1.2, 1e-9);
  EXPECT_EQ(kept[1].exchange, 300'000);
}

TEST_F(GroupBenchmarksTest, WhatHoldsNoMore_isMeasuredAnewAndKept) {
  const auto machines = hosts({1, 1, 1});
  group_costs(target_, machines, play(machines, 1.2, 3e-4), record_);
  const auto slower = play(machines, 1.2, 6e-4);
  EXPECT_EQ(slower.size(), 2u);
  EXPECT_EQ(group_costs(target_, machines, slower, record_)[0].exchange, 600'000);
  EXPECT_EQ(play(machines, 1.2, 6e-4).size(), 1u);
}

TEST_F(GroupBenchmarksTest, OtherHostsADayLaterOrAnewAsAsked_countNothing) {
  const auto machines = hosts({1, 1, 1});
  group_costs(target_, machines, play(machines, 1.2, 3e-4), record_);
  auto others = machines;
  others[2].name = "other";
  EXPECT_EQ(play(others, 1.2, 3e-4).size(), 2u);
  others = machines;
  others[1].threads = 7;
  EXPECT_EQ(play(others, 1.2, 3e-4).size(), 2u);
  record_.renew = true;
  EXPECT_EQ(play(machines, 1.2, 3e-4).size(), 2u);
  record_ = {record_.folder, record_.now_s + 24 * 60 * 60};
  EXPECT_EQ(play(machines, 1.2, 3e-4).size(), 2u);
}

}  // namespace
}  // namespace yamata
