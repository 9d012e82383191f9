// Which differences between measured ranks are significant.
#include "mpi/planning/rank_speed.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace yamata {
namespace {

wire::Hello rank_on(const std::string& host, double ns_per_byte, const std::string& group = "/", std::int32_t threads = 2) {
  wire::Hello hello;
  hello.host = host;
  hello.cpu_group = group;
  hello.threads = threads;
  hello.measured.ns_per_byte = ns_per_byte;
  return hello;
}

using NsPerByte = std::vector<double>;

TEST(RankSpeed, HostsWithin15Percent_areEqual) {
  EXPECT_EQ(relative_ns_per_byte({rank_on("a", 0.107), rank_on("b", 0.100), rank_on("c", 0.114)}, {0, 1, 2}), (NsPerByte{1, 1, 1}));
}

TEST(RankSpeed, SlowHost_isSlowAndTheOthersStayEqual) {
  const NsPerByte ns_per_byte = relative_ns_per_byte({rank_on("a", 0.11), rank_on("b", 0.5), rank_on("c", 0.10)}, {0, 1, 2});
  EXPECT_EQ(ns_per_byte[0], 1);
  EXPECT_EQ(ns_per_byte[2], 1);
  EXPECT_NEAR(ns_per_byte[1], 0.5 / 0.105, 1e-9);
}

TEST(RankSpeed, HostsWithTheSameProcessorAndThreads_areEqualWithin50Percent) {
  const auto of = [](const std::string& cpu, double ns_per_byte, const std::string& host, std::int32_t threads = 2) {
    wire::Hello hello = rank_on(host, ns_per_byte, "/", threads);
    hello.cpu = cpu;
    return hello;
  };
  EXPECT_EQ(relative_ns_per_byte({of("x", 0.1, "a"), of("x", 0.14, "b"), of("x", 0.11, "c")}, {0, 1, 2}), (NsPerByte{1, 1, 1}));
  EXPECT_NEAR(relative_ns_per_byte({of("x", 0.1, "a"), of("y", 0.13, "b")}, {0, 1})[1], 1.3, 1e-9) << "another processor";
  EXPECT_NEAR(relative_ns_per_byte({of("x", 0.1, "a"), of("x", 0.13, "b", 1)}, {0, 1})[1], 1.3, 1e-9) << "fewer threads";
  EXPECT_NEAR(relative_ns_per_byte({of("", 0.1, "a"), of("", 0.13, "b")}, {0, 1})[1], 1.3, 1e-9) << "unknown";
  EXPECT_NEAR(relative_ns_per_byte({of("x", 0.1, "a"), of("x", 0.2, "b")}, {0, 1})[1], 2, 1e-9) << "one has less of it";
  const auto settled = settled_ns_per_byte({of("x", 0.1, "a"), of("x", 0.13, "b"), of("y", 0.3, "c")}, {0, 1, 2});
  EXPECT_EQ(settled, (NsPerByte{0.1, 0.1, 0.3})) << "of two the faster: something disturbed the other";
  auto device = of("x", 0.13, "b");
  device.device = "cuda:0";
  EXPECT_NEAR(relative_ns_per_byte({of("x", 0.1, "a"), device}, {0, 1})[1], 1.3, 1e-9) << "it computes on something else";
}

TEST(RankSpeed, RanksOfOneControlGroup_areEqualWhateverTheyMeasured) {
  EXPECT_EQ(relative_ns_per_byte({rank_on("a", 0.1), rank_on("a", 0.8), rank_on("a", 0.3)}, {0, 1, 2}), (NsPerByte{1, 1, 1}));
  const NsPerByte quota = relative_ns_per_byte({rank_on("a", 0.1), rank_on("a", 0.6, "/slow"), rank_on("a", 0.3)}, {0, 1, 2});
  EXPECT_EQ(quota[0], 1);
  EXPECT_EQ(quota[2], 1);
  EXPECT_NEAR(quota[1], 3, 1e-9);
  EXPECT_EQ(relative_ns_per_byte({rank_on("a", 0.1, "/x"), rank_on("a", 0.14, "/y")}, {0, 1}), (NsPerByte{1, 1}));
}

TEST(RankSpeed, ThreadsOfOneHost_count) {
  EXPECT_NEAR(relative_ns_per_byte({rank_on("a", 0.3, "/", 1), rank_on("a", 0.1, "/", 3)}, {0, 1})[0], 3, 1e-9);
}

TEST(RankSpeed, UnmeasuredRank_leavesThemUncompared) {
  EXPECT_TRUE(relative_ns_per_byte({rank_on("a", 0.1), rank_on("b", 0)}, {0, 1}).empty());
  EXPECT_TRUE(relative_ns_per_byte({rank_on("a", 0.1), rank_on("b", std::nan(""))}, {0, 1}).empty());
  EXPECT_EQ(relative_ns_per_byte({rank_on("a", 0.1), rank_on("b", 0.1), rank_on("drafter", 0)}, {0, 1}).size(), 2u);
}

TEST(RankSpeed, Room_isAnEqualPartOfTheHostsMemoryLessBuffers) {
  std::vector<wire::Hello> hellos{rank_on("a", 1), rank_on("b", 1), rank_on("a", 1)};
  hellos[0].available_bytes = 1000;
  hellos[1].available_bytes = 50;
  hellos[2].available_bytes = 1100;
  EXPECT_EQ(weight_capacities(hellos, 100, 0), (std::vector<std::uint64_t>{400, 0, 400}));
}

TEST(RankSpeed, MemoryOfADevice_isItsRanksAlone) {
  std::vector<wire::Hello> hellos{rank_on("a", 1), rank_on("a", 1), rank_on("a", 1)};
  for (wire::Hello& hello : hellos) hello.available_bytes = 1000;
  hellos[1].device = "cuda:0", hellos[1].available_bytes = 300;
  EXPECT_EQ(weight_capacities(hellos, 100, 0), (std::vector<std::uint64_t>{400, 200, 400})) << "all is on the device";
  hellos[1].device = "cpu+cuda:0", hellos[1].available_bytes = 1000;
  hellos[1].device_layers = 3, hellos[1].device_bytes = 500;
  EXPECT_EQ(weight_capacities(hellos, 0, 100), (std::vector<std::uint64_t>{333, 333 + 300, 333})) << "three layers";
  EXPECT_EQ(weight_capacities(hellos, 0, 200), (std::vector<std::uint64_t>{333, 333 + 500, 333})) << "as far as there is memory";
  hellos[1].device_is_unified = 1;
  EXPECT_EQ(weight_capacities(hellos, 0, 100), (std::vector<std::uint64_t>{333, 333, 333})) << "it is the machine's";
}

}  // namespace
}  // namespace yamata
