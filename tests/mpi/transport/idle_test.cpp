// How a rank waits: short waits in naps, long ones, and those of a single rank, until they are ended.
#include "mpi/transport/idle.hpp"

#include <gtest/gtest.h>

#include "tests/mpi/silent_transport.hpp"

namespace yamata {
namespace {

class CountingTransport final : public test::SilentTransport {
 public:
  using SilentTransport::SilentTransport;
  void nap(std::chrono::microseconds) override { ++naps; }
  void sleep(std::chrono::microseconds) override { ++sleeps; }
  bool wakes() const override { return true; }

  int naps = 0, sleeps = 0;
};

TEST(Idle, ShortWaitForOtherRanks_isANap) {
  CountingTransport transport(2);
  Idle idle;
  idle.rest(transport);
  idle.rest_computing(transport);
  EXPECT_EQ(transport.naps, 2);
  EXPECT_EQ(transport.sleeps, 0);
}

TEST(Idle, SingleRank_sleepsUntilItsComputationEnds) {
  CountingTransport transport(1);
  Idle idle;
  idle.rest_computing(transport);
  EXPECT_EQ(transport.naps, 0) << "each nap takes a core from the threads that compute";
  EXPECT_EQ(transport.sleeps, 1);
}

TEST(Idle, RankWithoutWork_wakesRarely) {
  using namespace std::chrono_literals;
  EXPECT_EQ(Idle::longest_sleep(999ms), 20ms);
  EXPECT_EQ(Idle::longest_sleep(1s), 60ms);
}

}  // namespace
}  // namespace yamata
