// Which rank is reported as silent, in virtual time.
#include "mpi/cluster/liveness.hpp"

#include <gtest/gtest.h>

#include "node/error.hpp"

namespace yamata {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class LivenessTest : public testing::Test {
 protected:
  LivenessTest() : liveness_(3, seconds(10), now_) {
    for (int r = 0; r < 3; ++r) liveness_.name(r, "host" + std::to_string(r));
    liveness_.watch(1, now_);
    liveness_.watch(2, now_);
  }
  /// Advances the time in steps, like a rank that checks often; the given ranks are heard at each step.
  void pass(milliseconds time, std::vector<int> heard) {
    for (milliseconds gone{0}; gone < time; gone += milliseconds(500)) {
      now_ += milliseconds(500);
      for (const int rank : heard) liveness_.heard(rank, now_);
      const auto rank = liveness_.silent(now_);
      if (rank) throw ClusterError(liveness_.silence_text(*rank, 0, [this] { return reaches_launcher_; }));
    }
  }
  void wait(seconds time) { pass(time, {1, 2}); }
  /// What rank `rank` says of itself: which ranks it hears.
  void tell_hears(int rank, std::vector<std::int32_t> hears, std::int32_t awaits = -1) {
    wire::Heartbeat heartbeat;
    heartbeat.awaits = awaits;
    heartbeat.hears = std::move(hears);
    liveness_.tell(rank, heartbeat);
  }
  std::string blame(const std::function<void()>& what) {
    try {
      what();
    } catch (const ClusterError& e) {
      return e.what();
    }
    return "nobody";
  }

  std::optional<bool> reaches_launcher_;
  Liveness::Clock::time_point now_{};
  Liveness liveness_;
};

TEST_F(LivenessTest, SilentRank_isNamedAfterTheDeadline) {
  pass(seconds(9), {1});
  const std::string text = blame([&] { pass(seconds(2), {1}); });
  EXPECT_EQ(text.find("rank 2 (host2) has been silent for 10 s"), 0u) << text;
}

TEST_F(LivenessTest, RanksThatNobodyHears_areNamedTogether) {
  Liveness four(4, seconds(10), now_);
  for (int r = 1; r < 4; ++r) {
    four.name(r, "host" + std::to_string(r));
    four.watch(r, now_);
  }
  std::optional<int> silent;
  while (!silent) {
    silent = four.silent(now_ += seconds(1));
    four.heard(3, now_);
    four.heard(2, std::min(now_, Liveness::Clock::time_point(seconds(3))));  // is lost later than rank 1
  }
  EXPECT_EQ(
      four.silence_text(*silent, 0),
      "rank 1 (host1) and rank 2 (host2) have been silent for 10 s: they are stopped, dead or cut off; look at those machines (or, on a "
      "slow link, raise --timeout)");
  wire::Heartbeat hears_one;
  hears_one.hears = {2};
  four.tell(3, hears_one);
  EXPECT_EQ(four.silence_text(*silent, 0).find("rank 1 (host1) has been silent for 10 s"), 0u) << "rank 3 hears rank 2";
}

TEST_F(LivenessTest, RankTheOthersCanDoWithout_isWaitedForLessLong) {
  liveness_.shorten_deadline(2, seconds(4));
  const std::string text = blame([&] { pass(seconds(5), {1}); });
  EXPECT_EQ(text.find("rank 2 (host2) has been silent for 4 s"), 0u) << text;
  liveness_.shorten_deadline(1, seconds(40));
  EXPECT_NE(blame([&] { pass(seconds(11), {2}); }), "nobody") << "nobody is waited for longer than told";
}

TEST_F(LivenessTest, ShorterDeadlines_areCountedFromNow) {
  pass(seconds(8), {1});
  liveness_.shorten_deadlines(seconds(3), now_);
  EXPECT_EQ(blame([&] { pass(milliseconds(2500), {1}); }), "nobody");
  const std::string text = blame([&] { pass(seconds(1), {1}); });
  EXPECT_EQ(text.find("rank 2 (host2) has been silent for 3 s"), 0u) << text;
  EXPECT_NE(text.find("raise --serving-timeout"), std::string::npos) << text;
}

TEST_F(LivenessTest, ShorterDeadline_alsoHoldsForWorkWithoutProgress_butALongerOneForNothing) {
  const auto stalls_after = [&](seconds time) {
    liveness_.check_progress(now_, true, {}, {{0}, {1}, {2}});
    wait(time);
    return blame([&] { liveness_.check_progress(now_, true, {}, {{0}, {1}, {2}}); }) != "nobody";
  };
  liveness_.shorten_deadlines(seconds(30), now_);
  EXPECT_TRUE(stalls_after(seconds(11)));
  liveness_.shorten_deadlines(seconds(3), now_);
  EXPECT_FALSE(stalls_after(seconds(2)));
  EXPECT_TRUE(stalls_after(seconds(2)));
}

TEST_F(LivenessTest, StageBehindADrafter_waitsForTheStageBeforeIt) {
  liveness_.tell(1, {0, wire::Activity::kComputing, 1000});  // a drafter
  liveness_.tell(2, {0, wire::Activity::kAwaitingActivations, 1000, -1, false, {0}});
  liveness_.check_progress(now_, true, {}, {{0}, {2}});
  pass(seconds(11), {1, 2});
  const std::string text = blame([&] { liveness_.check_progress(now_, true, {}, {{0}, {2}}); });
  EXPECT_NE(text.find("rank 2 (host2) has waited 10 s for the results of rank 0"), std::string::npos) << text;
}

TEST_F(LivenessTest, RankThatHearsNobody_isItselfTheOneCutOffIfItDoesNotReachTheLauncher) {
  reaches_launcher_ = false;
  pass(seconds(5), {1, 2});
  const std::string text = blame([&] { pass(seconds(11), {}); });
  EXPECT_EQ(text.find("rank 0 (host0) has heard no other rank for 10 s: it is cut off"), 0u) << text;
}

TEST_F(LivenessTest, RankThatHearsNobodyButTheLauncher_namesAllOthers) {
  reaches_launcher_ = true;
  const std::string text = blame([&] { pass(seconds(11), {}); });
  EXPECT_EQ(text.find("rank 1 (host1) and rank 2 (host2) have been silent for 10 s: they are stopped"), 0u) << text;
  EXPECT_NE(text.find("or rank 0 (host0) was cut off for a while"), std::string::npos) << text;  // and its link has returned
}

TEST_F(LivenessTest, RankThatHearsNobodyButTheLauncher_namesOnlyWhomItWatches) {
  reaches_launcher_ = true;
  Liveness worker(3, seconds(10), now_);
  for (int r = 0; r < 3; ++r) worker.name(r, "host" + std::to_string(r));
  worker.watch(0, now_);
  for (int i = 0; i < 5; ++i) worker.silent(now_ += seconds(2));
  const std::string text = worker.silence_text(0, 1, [] { return std::optional(true); });
  EXPECT_EQ(text.find("rank 0 (host0) has been silent for 10 s: it is stopped"), 0u) << text;
}

TEST_F(LivenessTest, RankOnTheLaunchersMachineThatHearsNobody_saysThatItOrTheOthersAreCutOff) {
  const std::string text = blame([&] { pass(seconds(11), {}); });
  EXPECT_EQ(text.find("rank 0 (host0) has heard no other rank for 10 s: it is cut off, or rank 1 (host1) and rank 2 (host2) are"), 0u)
      << text;
}

TEST_F(LivenessTest, LastOtherRank_isNamedIfAnotherHasLeftBefore) {
  liveness_.unwatch(2);
  const std::string text = blame([&] { pass(seconds(11), {}); });
  EXPECT_EQ(text.find("rank 1 (host1) has been silent"), 0u) << text;
}

TEST_F(LivenessTest, RankThatIsHeardByAnUnwatchedOne_isNotCutOff) {
  liveness_.unwatch(2);
  const std::string text = blame([&] { pass(seconds(11), {2}); });
  EXPECT_EQ(text.find("rank 1 (host1) has been silent"), 0u) << text;
}

TEST_F(LivenessTest, OfTwoMachines_nobodyKnowsWhichIsCutOff) {
  for (const int rank : {1, 2}) liveness_.name(rank, "other");
  const std::string text = blame([&] { pass(seconds(11), {}); });
  EXPECT_EQ(
      text.find("rank 1 (other) and rank 2 (other) have been silent for 10 s: they are stopped, dead or cut off; look at that machine ("),
      0u)
      << text;
}

TEST_F(LivenessTest, SilentRankOnTheSameMachine_isNotCutOff) {
  liveness_.name(2, "host0");
  const std::string text = blame([&] { pass(seconds(11), {}); });
  EXPECT_EQ(text.find("rank 1 (host1) and rank 2 (host0) have been silent"), 0u) << text;
}

TEST_F(LivenessTest, OfTwoRanks_nobodyKnowsWhichIsCutOff) {
  Liveness two(2, seconds(10), now_);
  two.watch(1, now_);
  for (int i = 0; i < 5; ++i) two.silent(now_ += seconds(2));
  EXPECT_EQ(two.silence_text(1, 0).find("rank 1 has been silent"), 0u);
}

TEST_F(LivenessTest, Suspicion_comesAtHalfTheDeadline) {
  now_ += seconds(4);
  EXPECT_FALSE(liveness_.suspicious(now_));
  now_ += seconds(2);
  EXPECT_TRUE(liveness_.suspicious(now_));
  liveness_.heard(1, now_);
  liveness_.heard(2, now_);
  EXPECT_FALSE(liveness_.suspicious(now_));
}

TEST_F(LivenessTest, WhoMayBeEndedWithTheJob_saysNothingForAWhile) {
  pass(seconds(9), {1});
  liveness_.hold_back(now_);
  EXPECT_EQ(blame([&] { pass(milliseconds(2500), {1}); }), "nobody");
  EXPECT_NE(blame([&] { pass(seconds(1), {1}); }), "nobody");
}

TEST_F(LivenessTest, UnwatchedRank_mayBeSilent) {
  liveness_.unwatch(2);
  EXPECT_EQ(blame([&] { pass(seconds(60), {1}); }), "nobody");
}

TEST_F(LivenessTest, OwnSleep_isNotTheSilenceOfARankThatIsWaitedForLessLong) {
  liveness_.shorten_deadline(2, seconds(4));
  now_ += milliseconds(4500);
  EXPECT_FALSE(liveness_.silent(now_));
  EXPECT_EQ(blame([&] { pass(milliseconds(3500), {1}); }), "nobody");
  EXPECT_NE(blame([&] { pass(seconds(1), {1}); }), "nobody");
}

TEST_F(LivenessTest, OwnSleep_isNobodysSilence) {
  now_ += seconds(100);  // this rank was stopped and continues
  EXPECT_EQ(blame([&] {
              pass(milliseconds(0), {});
              EXPECT_FALSE(liveness_.silent(now_));
            }),
            "nobody");
  EXPECT_EQ(blame([&] { pass(seconds(9), {}); }), "nobody");
  EXPECT_NE(blame([&] { pass(seconds(2), {}); }), "nobody");
}

TEST_F(LivenessTest, WaitingStage_blamesTheLinkBeforeIt) {
  liveness_.tell(1, {5, wire::Activity::kIdle, 1000, -1, false, {0, 2}});
  liveness_.tell(2, {5, wire::Activity::kAwaitingActivations, 1000, -1, false, {0, 1}});
  liveness_.check_progress(now_, true, {}, {{0}, {1}, {2}});
  wait(seconds(9));
  EXPECT_EQ(blame([&] { liveness_.check_progress(now_, true, {}, {{0}, {1}, {2}}); }), "nobody");
  wait(seconds(2));
  const std::string text = blame([&] { liveness_.check_progress(now_, true, {}, {{0}, {1}, {2}}); });
  EXPECT_EQ(text.find("rank 2 (host2) has waited 10 s for the results of rank 1 (host1)"), 0u) << text;
}

TEST_F(LivenessTest, WaitingMemberOfAGroup_blamesTheLinkToTheOther) {
  liveness_.tell(1, {5, wire::Activity::kComputing, 1000, 2, false, {0, 2}});
  liveness_.tell(2, {5, wire::Activity::kComputing, 1000, 1, false, {0, 1}});
  liveness_.check_progress(now_, true, {}, {{0}, {1, 2}});
  wait(seconds(11));
  const std::string text = blame([&] { liveness_.check_progress(now_, true, {}, {{0}, {1, 2}}); });
  EXPECT_EQ(text.find("rank 1 (host1) has waited 10 s for the part of rank 2 (host2): the link between them is cut"), 0u) << text;
}

TEST_F(LivenessTest, Progress_anywhereBeginsTheDeadlineAnew) {
  tell_hears(1, {0, 2});
  for (std::uint64_t p = 1; p < 20; ++p) {
    wait(seconds(9));
    liveness_.tell(2, {p, wire::Activity::kComputing, 1000, -1, false, {0, 1}});
    EXPECT_EQ(blame([&] { liveness_.check_progress(now_, true, {}, {{0}, {1}, {2}}); }), "nobody");
  }
  wait(seconds(11));
  const std::string text = blame([&] { liveness_.check_progress(now_, true, {}, {{0}, {1}, {2}}); });
  EXPECT_EQ(text.find("rank 2 (host2) has computed for 10 s"), 0u) << text;
}

TEST_F(LivenessTest, NoOpenWork_needsNoProgress) {
  for (int i = 0; i < 5; ++i) {
    wait(seconds(60));
    EXPECT_EQ(blame([&] { liveness_.check_progress(now_, false, {}, {{0}, {1}, {2}}); }), "nobody");
  }
}

TEST_F(LivenessTest, LinkToARankThatAnotherHears_isNamedInsteadOfTheRank) {
  tell_hears(1, {0, 2});
  const std::string text = blame([&] { pass(seconds(11), {1}); });
  EXPECT_EQ(text.find("rank 0 (host0) and rank 2 (host2) have not heard each other for 10 s"), 0u) << text;
}

TEST_F(LivenessTest, CutLinkBetweenStages_isNamedThoughNeitherKnowsOfTheRun) {
  tell_hears(1, {0});
  tell_hears(2, {0});
  liveness_.check_progress(now_, true, {}, {{0}, {1}, {2}});
  wait(seconds(11));
  const std::string text = blame([&] { liveness_.check_progress(now_, true, {}, {{0}, {1}, {2}}); });
  EXPECT_EQ(text.find("rank 1 (host1) and rank 2 (host2) have not heard each other for 10 s"), 0u) << text;
}

TEST_F(LivenessTest, CutLinkThatThePipelineDoesNotUse_isNotNamed) {
  tell_hears(1, {0});
  tell_hears(2, {0});
  liveness_.check_progress(now_, true, {}, {{1}, {0}, {2}});
  wait(seconds(11));
  const std::string text = blame([&] { liveness_.check_progress(now_, true, {}, {{1}, {0}, {2}}); });
  EXPECT_EQ(text.find("no rank has made progress"), 0u) << text;
}

TEST_F(LivenessTest, OfAGroupWhoseRanksWaitInARow_theLastLinkIsNamed) {
  wire::Heartbeat own;
  own.awaits = 1;
  tell_hears(1, {0, 2}, 2);
  tell_hears(2, {0, 1}, 1);
  liveness_.check_progress(now_, true, own, {{0, 1, 2}});
  wait(seconds(11));
  const std::string text = blame([&] { liveness_.check_progress(now_, true, own, {{0, 1, 2}}); });
  EXPECT_NE(text.find("rank 1 (host1)"), std::string::npos) << text;
  EXPECT_NE(text.find("rank 2 (host2)"), std::string::npos) << text;
}

TEST_F(LivenessTest, StalledJob_saysNothingWhileARankIsSilent) {
  tell_hears(1, {0, 2});
  tell_hears(2, {0, 1});
  const auto check = [&] { liveness_.check_progress(now_, true, {}, {{0}, {1}, {2}}); };
  check();
  pass(seconds(5), {1, 2});
  EXPECT_EQ(blame([&] { pass(seconds(9), {1}), check(); }), "nobody") << "it is reported when its own deadline is over";
  const std::string text = blame([&] { pass(seconds(2), {1}), check(); });
  EXPECT_EQ(text.find("rank 0 (host0) and rank 2"), 0u) << text;
}

TEST_F(LivenessTest, RankThatSendsALargeMessageToAnother_isNotSilent) {
  wire::Heartbeat receiving;
  receiving.receives = {2};
  liveness_.tell(1, receiving);
  EXPECT_EQ(blame([&] { pass(seconds(30), {1}); }), "nobody");
  EXPECT_FALSE(liveness_.suspicious(now_));
  liveness_.tell(1, {});
  EXPECT_EQ(blame([&] { pass(seconds(9), {1}); }), "nobody");
  EXPECT_NE(blame([&] { pass(seconds(2), {1}); }), "nobody");
}

TEST_F(LivenessTest, SilentReceiver_excusesNobody) {
  wire::Heartbeat receiving;
  receiving.receives = {2};
  liveness_.tell(1, receiving);
  const std::string text = blame([&] { pass(seconds(11), {}); });
  EXPECT_NE(text.find("rank 0 (host0) has heard no other rank"), std::string::npos) << text;
}

TEST_F(LivenessTest, Parts_showFromWhomAMessageArrives) {
  liveness_.heard_part(1, now_);
  pass(seconds(9), {2});
  EXPECT_EQ(liveness_.receives(), std::vector<std::int32_t>{1}) << "a part may take long";
  EXPECT_EQ(liveness_.parts(), 1u);
  liveness_.heard_part(1, now_);
  EXPECT_EQ(liveness_.parts(), 2u);
  liveness_.heard(1, now_);
  EXPECT_TRUE(liveness_.receives().empty());
  liveness_.heard_part(1, now_);
  EXPECT_NE(blame([&] { pass(seconds(10), {2}); }), "nobody");
  EXPECT_TRUE(liveness_.receives().empty());
}

TEST_F(LivenessTest, StalledJob_makesAllRanksAskEachOther) {
  liveness_.check_progress(now_, true, {}, {{0}, {1}, {2}});
  wait(seconds(4));
  EXPECT_FALSE(liveness_.suspicious(now_));
  wait(seconds(2));
  EXPECT_TRUE(liveness_.suspicious(now_));
  liveness_.check_progress(now_, false, {}, {{0}, {1}, {2}});
  EXPECT_FALSE(liveness_.suspicious(now_)) << "no work is open";
}

TEST_F(LivenessTest, DrafterWhoseRanksDoNotComeOn_isStalledWhileItIsAwaited) {
  liveness_.shorten_deadline(1, seconds(8));
  const auto stalled_after = [&](std::chrono::seconds time, bool awaited) {
    now_ += time;
    return liveness_.drafter_stalled(now_, awaited, {1, 2});
  };
  EXPECT_FALSE(stalled_after(seconds(0), true));
  EXPECT_FALSE(stalled_after(seconds(7), true));
  liveness_.tell(2, {7, wire::Activity::kIdle, 1000});
  EXPECT_FALSE(stalled_after(seconds(1), true));
  EXPECT_TRUE(stalled_after(seconds(8), true));
  EXPECT_FALSE(stalled_after(seconds(60), false));
  EXPECT_FALSE(stalled_after(seconds(7), true));
  now_ += seconds(100);
  liveness_.silent(now_);  // this rank was stopped and continues
  EXPECT_FALSE(stalled_after(seconds(0), true));
  EXPECT_TRUE(stalled_after(seconds(8), true));
  pass(seconds(6), {1});
  EXPECT_FALSE(stalled_after(seconds(0), true)) << "rank 2 is rather silent";
}

TEST_F(LivenessTest, Heartbeats_areDueSeveralTimesPerDeadlineAndOftenOnDemand) {
  EXPECT_TRUE(liveness_.due(now_));
  EXPECT_FALSE(liveness_.due(now_));
  now_ += seconds(1);
  EXPECT_TRUE(liveness_.due(now_, true));
  now_ += milliseconds(100);
  EXPECT_TRUE(liveness_.due(now_, true));
}

}  // namespace
}  // namespace yamata
