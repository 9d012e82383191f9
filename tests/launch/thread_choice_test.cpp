// Warnings of more threads than a host can run at once.
#include "launch/thread_choice.hpp"

#include <gtest/gtest.h>

#include "node/topology.hpp"
#include "tests/launch/process.hpp"

namespace yamata {
namespace {

wire::Hello rank(const std::string& host, int threads, int cpus, const std::string& group = "") {
  wire::Hello hello;
  hello.host = host, hello.threads = threads, hello.logical_cpus = cpus, hello.cpu_group = group;
  return hello;
}

TEST(CrowdedHosts, ThreadsOfAllItsRanks_areCounted) {
  const std::vector<wire::Hello> ranks{rank("a", 2, 4), rank("b", 4, 4), rank("a", 3, 4)};
  const std::vector<std::string> warnings = crowded_hosts(ranks);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_TRUE(warnings[0].starts_with("a has 5 threads on 4 CPUs")) << warnings[0];
}

TEST(CrowdedHosts, WhatFitsAndRanksOfOneThread_areNotWarnedOf) {
  const std::vector<wire::Hello> ranks{rank("a", 2, 4), rank("a", 2, 4), rank("b", 1, 1), rank("b", 1, 1)};
  EXPECT_TRUE(crowded_hosts(ranks).empty());
}

TEST(CrowdedHosts, ContainersOfOneName_haveCpusOfTheirOwn) {
  const std::vector<wire::Hello> ranks{rank("a", 4, 4, "/one"), rank("a", 4, 4, "/two")};
  EXPECT_TRUE(crowded_hosts(ranks).empty());
}

TEST(CrowdedHosts, JobWithTooManyThreads_saysSo) {
  const auto complaints = [](int threads) {
    return test::run(test::yamata({"run", "-m", test::kModel, "-p", "A king", "-n", "2", "-t", std::to_string(threads)})).complaints();
  };
  const std::vector<std::string> warnings = complaints(Topology::detect().logical_cpus + 1);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("lower -t"), std::string::npos) << warnings[0];
  EXPECT_TRUE(complaints(1).empty());
}

}  // namespace
}  // namespace yamata
