// Which guard reports a start that does not end, and when, in virtual time.
#include "launch/program/guard/start_watch.hpp"

#include <gtest/gtest.h>

namespace yamata {
namespace {

using std::chrono::milliseconds;

/// Advances the time in steps of 100 ms, and checks at each.
class StartWatchTest : public testing::Test {
 protected:
  /// Milliseconds until it reports; -1: not within a minute.
  int complains_after(StartWatch& watch, Phase phase, bool stopped) {
    for (int ms = 100; ms <= 60000; ms += 100) {
      now_ += milliseconds(100);
      text_ = watch.complaint(phase, stopped, now_);
      if (!text_.empty()) return ms;
    }
    return -1;
  }
  StartWatch watch_of(int rank) { return {rank, "b", milliseconds(2000), now_}; }

  StartWatch::Clock::time_point now_{std::chrono::hours(1)};
  std::string text_;
};

TEST_F(StartWatchTest, StoppedRank_isNamedFirst) {
  auto watch = watch_of(2);
  EXPECT_EQ(complains_after(watch, Phase::kStarting, true), 2000);
  EXPECT_EQ(text_.find("rank 2 (b) was stopped"), 0u) << text_;
  auto alone = watch_of(0);
  EXPECT_EQ(complains_after(alone, Phase::kAlone, true), 2000);
}

TEST_F(StartWatchTest, RanksThatWait_sayItOneAfterAnother) {
  int last = 2000;
  for (int rank = 0; rank < 3; ++rank) {
    auto watch = watch_of(rank);
    const int after = complains_after(watch, Phase::kStarting, false);
    EXPECT_GE(after, last + (rank == 1 ? 2500 : 500));  // links may be slow, so rank 0's end takes a while
    EXPECT_LE(after, last + (rank == 1 ? 3000 : 1000));
    last = after;
    EXPECT_NE(text_.find("has waited 2 s for all ranks to start"), std::string::npos) << text_;
  }
}

TEST_F(StartWatchTest, RankThatIsThroughOrBusyAlone_hasTime) {
  auto busy = watch_of(0), through = watch_of(1);
  EXPECT_EQ(complains_after(busy, Phase::kAlone, false), -1);
  EXPECT_EQ(complains_after(through, Phase::kWatched, true), -1);
}

TEST_F(StartWatchTest, OwnStop_andTheEndOfTheJobCountForNothing) {
  auto watch = watch_of(0);
  now_ += std::chrono::minutes(5);  // the whole job was suspended
  EXPECT_GE(complains_after(watch, Phase::kStarting, true), 1500);
  auto told = watch_of(0);
  told.hold_back(now_ + milliseconds(1500));
  EXPECT_GE(complains_after(told, Phase::kStarting, true), 4400);
}

}  // namespace
}  // namespace yamata
