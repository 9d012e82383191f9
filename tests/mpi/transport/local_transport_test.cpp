#include "mpi/transport/local_transport.hpp"

#include <gtest/gtest.h>

#include "tests/mpi/transport/transport_contract.hpp"

namespace yamata {
namespace {

class LocalTransportTest : public testing::TestWithParam<int> {};

TEST_P(LocalTransportTest, Messages_arriveOnceWholeAndInOrder) {
  LocalNetwork network(GetParam());
  std::vector<std::string> faults(static_cast<std::size_t>(GetParam()));
  std::vector<std::thread> ranks;
  for (int r = 0; r < GetParam(); ++r) {
    ranks.emplace_back([&, r] {
      LocalTransport transport(network, r);
      try {
        play_transport_contract(transport);
      } catch (const std::exception& e) {
        faults[static_cast<std::size_t>(r)] = e.what();
      }
    });
  }
  for (auto& rank : ranks) rank.join();
  for (const std::string& fault : faults) EXPECT_EQ(fault, "");
}

INSTANTIATE_TEST_SUITE_P(Ranks, LocalTransportTest, testing::Values(1, 2, 4));

TEST(LocalTransport, AMessageAndWake_endARestThatWouldHaveLastedAnHour) {
  LocalNetwork network(2);
  LocalTransport rank(network, 0), other(network, 1);
  other.send(0, Tag::kStop, {});
  rank.sleep(std::chrono::hours(1));
  EXPECT_TRUE(rank.receive());
  rank.wake();
  rank.sleep(std::chrono::hours(1));
  EXPECT_FALSE(rank.receive());
}

}  // namespace
}  // namespace yamata
