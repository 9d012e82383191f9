// Doorbells between ranks of one machine.
#include "mpi/transport/doorbell.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

namespace yamata {
namespace {

class DoorbellTest : public testing::Test {
 protected:
  void SetUp() override {
    if (head_.fd() < 0) GTEST_SKIP() << "no sockets here";
    for (Doorbell* bell : {&head_, &stage_, &other_}) {
      bell->map(0, head_.page());
      bell->map(1, stage_.page());
      bell->map(2, other_.page());
    }
  }
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
  head_.map(1, stranger.page());
  stranger.asleep(true);
  head_.notify(1);
  EXPECT_FALSE(notified(stranger));
}

TEST_F(DoorbellTest, APageThatIsNotThere_isNotNotified) {
  const Doorbell lonely(job_ + 1, 0, 3);
  Doorbell far(job_ + 1, 1, 3);
  far.map(0, {});
  lonely.asleep(true);
  far.notify(0);
  EXPECT_FALSE(notified(lonely));
  far.map(0, lonely.page());
  far.notify(0);
  EXPECT_TRUE(notified(lonely));
}

TEST_F(DoorbellTest, Names_areInNoFolder) {
  for (const auto& file : std::filesystem::directory_iterator("/dev/shm")) {
    EXPECT_NE(file.path().filename().string().find(fmt::format("yamata-{:016x}", job_)), 0u) << file.path();
  }
}

TEST_F(DoorbellTest, WithoutABell_nothingHappens) {
  Doorbell second(job_, 1, 3);  // the name is in use
  second.map(0, head_.page());
  EXPECT_EQ(second.fd(), -1);
  head_.asleep(true);
  second.notify(0);
  second.notify_own();
  EXPECT_FALSE(second.answer().own);
  EXPECT_FALSE(notified(head_) || notified(stage_));
}

}  // namespace
}  // namespace yamata
