// Doorbells between ranks of one machine.
#include "mpi/transport/doorbell.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <thread>

namespace yamata {
namespace {

class DoorbellTest : public testing::Test {
 protected:
  void SetUp() override {
    if (head_.fd() < 0) GTEST_SKIP() << "no sockets here";
  }
  ~DoorbellTest() override { head_.unlink(); }
  static bool notified(const Doorbell& bell) {
    pollfd one{bell.fd(), POLLIN, 0};
    return poll(&one, 1, 0) == 1;
  }
  const std::uint64_t job_ = static_cast<std::uint64_t>(getpid()) << 32;
  Doorbell head_{job_, 0, 3}, stage_{job_, 1, 3}, other_{job_, 2, 3};
};

TEST_F(DoorbellTest, ASleeper_isWokenByOneRing) {
  stage_.asleep(true);
  other_.asleep(true);
  head_.notify(1);
  EXPECT_TRUE(notified(stage_));
  EXPECT_FALSE(notified(head_) || notified(other_));
  EXPECT_TRUE(stage_.answer().others);
  head_.notify(1);
  EXPECT_FALSE(notified(stage_)) << "it has been woken";
  stage_.asleep(true);
  other_.notify(1);
  EXPECT_TRUE(notified(stage_));
}

TEST_F(DoorbellTest, WhoIsAwake_isNotRungFor) {
  stage_.asleep(true);
  stage_.asleep(false);
  head_.notify(1);
  EXPECT_FALSE(notified(stage_));
}

TEST_F(DoorbellTest, OwnRing_wakesAtAnyTimeButIsNobodyElses) {
  std::thread([&] { stage_.notify_own(); }).join();
  EXPECT_TRUE(notified(stage_));
  const Doorbell::Notifications answered = stage_.answer();
  EXPECT_TRUE(answered.own && !answered.others);
  EXPECT_FALSE(notified(stage_));
}

TEST_F(DoorbellTest, ManyRings_areAnsweredAtOnce) {
  for (int i = 0; i < 10'000; ++i) stage_.notify_own();
  EXPECT_TRUE(stage_.answer().own);
  EXPECT_FALSE(notified(stage_));
  stage_.notify_own();
  EXPECT_TRUE(notified(stage_)) << "one that was full is notified again";
}

TEST_F(DoorbellTest, AnotherJob_isNotRungFor) {
  const Doorbell stranger(job_ + 1, 1, 3);
  stranger.unlink();
  stranger.asleep(true);
  head_.notify(1);
  EXPECT_FALSE(notified(stranger));
}

TEST_F(DoorbellTest, WithoutABell_nothingHappens) {
  const Doorbell second(job_, 1, 3);  // the name is in use
  EXPECT_EQ(second.fd(), -1);
  head_.asleep(true);
  second.notify(0);
  second.notify_own();
  EXPECT_FALSE(second.answer().own);
  EXPECT_FALSE(notified(head_) || notified(stage_));
}

}  // namespace
}  // namespace yamata
