// Bells between ranks of one machine.
#include "mpi/doorbell.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <thread>

namespace yamata {
namespace {

std::uint64_t some_job() { return static_cast<std::uint64_t>(getpid()) << 32; }

bool rings(const Doorbell& bell) {
  pollfd one{bell.fd(), POLLIN, 0};
  return poll(&one, 1, 0) == 1;
}

TEST(Doorbell, ARing_isHeardByTheRankItIsFor) {
  Doorbell head(some_job(), 0, 3), stage(some_job(), 1, 3), other(some_job(), 2, 3);
  head.ring(1);
  EXPECT_TRUE(rings(stage));
  EXPECT_FALSE(rings(head) || rings(other));
  EXPECT_TRUE(stage.answer().others);
  EXPECT_FALSE(rings(stage));
}

TEST(Doorbell, ManyRings_areAnsweredAtOnce) {
  Doorbell head(some_job(), 0, 2), stage(some_job(), 1, 2);
  for (int i = 0; i < 10'000; ++i) head.ring(1);
  EXPECT_TRUE(stage.answer().others);
  EXPECT_FALSE(rings(stage));
  head.ring(1);
  EXPECT_TRUE(rings(stage)) << "a bell that was full is rung again";
}

TEST(Doorbell, OwnRing_wakesButIsNobodyElses) {
  Doorbell stage(some_job(), 1, 2);
  std::thread([&] { stage.ring_own(); }).join();
  EXPECT_TRUE(rings(stage));
  const auto answered = stage.answer();
  EXPECT_TRUE(answered.own && !answered.others);
}

TEST(Doorbell, AnotherJob_isNotRungFor) {
  Doorbell head(some_job(), 0, 2), stage(some_job() + 1, 1, 2);
  head.ring(1);
  EXPECT_FALSE(rings(stage));
}

TEST(Doorbell, WithoutABell_nothingHappens) {
  Doorbell first(some_job(), 0, 1), second(some_job(), 0, 1);  // the name is taken
  EXPECT_EQ(second.fd(), -1);
  second.ring(0);
  second.ring_own();
  EXPECT_FALSE(second.answer().own);
  EXPECT_FALSE(rings(first));
}

}  // namespace
}  // namespace yamata
