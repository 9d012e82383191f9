// How a rank waits: short waits in naps, long ones, and those of a single rank, until they are ended.
#include "mpi/transport/idle.hpp"

#include <gtest/gtest.h>

namespace yamata {
namespace {

class CountingTransport final : public Transport {
 public:
  explicit CountingTransport(int size) : size_(size) {}
  int rank() const override { return 0; }
  int size() const override { return size_; }
  void send(int, Tag, std::vector<std::byte>) override {}
  std::optional<Message> receive() override { return std::nullopt; }
  std::size_t pending_sends() const override { return 0; }
  std::uint64_t bytes_sent() const override { return 0; }
  void forget(int) override {}
  bool forgotten(int) const override { return false; }
  void nap(std::chrono::microseconds) override { ++naps; }
  void sleep(std::chrono::microseconds) override { ++sleeps; }
  bool wakes() const override { return true; }
  void abort(int) override {}

  int naps = 0, sleeps = 0;

 private:
  int size_;
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

}  // namespace
}  // namespace yamata
