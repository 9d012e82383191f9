#include "node/cpu/slowdown.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <string>

#include "tests/temporary_folder.hpp"

namespace yamata {
namespace {

/// A lock file, which another host may hold.
class SlowdownTest : public testing::Test {
 protected:
  SlowdownTest() : other_(open(path_.c_str(), O_RDWR | O_CREAT, 0600)) {}
  ~SlowdownTest() override { close(other_); }
  /// Whether another host could take the lock now.
  bool free() {
    if (flock(other_, LOCK_EX | LOCK_NB) != 0) return false;
    flock(other_, LOCK_UN);
    return true;
  }

  test::TemporaryFolder folder_;
  std::string path_ = folder_ / "turns";
  int other_;
};

TEST_F(SlowdownTest, HasTheTurnWhileItComputesButNotInAnExchange) {
  Slowdown slow(1.001, path_);
  EXPECT_TRUE(free());
  slow.begin_operation();
  EXPECT_FALSE(free());
  slow.begin_exchange();
  EXPECT_TRUE(free());
  slow.end_exchange();
  EXPECT_FALSE(free());
  slow.end_operation();
  EXPECT_TRUE(free());
}

TEST_F(SlowdownTest, TakesNoTurnWhereNothingIsSlowedDown) {
  Slowdown slow(1, path_);
  slow.begin_operation();
  EXPECT_TRUE(free());
  slow.end_operation();
}

TEST_F(SlowdownTest, GivesTheTurnUpAsItEnds) {
  {
    Slowdown slow;
    slow = Slowdown(1.001, path_);
    slow.begin_operation();
    EXPECT_FALSE(free());
  }
  EXPECT_TRUE(free());
}

TEST_F(SlowdownTest, ComputesWithoutTurnsWhereTheFileIsMissing) {
  Slowdown slow(1.001, path_ + "-missing");
  slow.begin_operation();
  slow.end_operation();
}

}  // namespace
}  // namespace yamata
