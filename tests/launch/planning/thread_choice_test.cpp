// The choice of the number of threads, and warnings if a host has more threads than CPUs.
#include "launch/program/planning/thread_choice.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <ctime>
#include <map>

#include "launch/program/output/report.hpp"
#include "node/topology.hpp"
#include "tests/launch/planning/times.hpp"
#include "tests/launch/process.hpp"

namespace yamata {
namespace {

wire::Hello rank(const std::string& host, int threads, int cpus, const std::string& group = "") {
  wire::Hello hello;
  hello.host = host, hello.threads = threads, hello.logical_cpus = cpus, hello.cpu_group = group;
  return hello;
}

/// Choices of 4, 2 and 1 threads on a machine whose speeds the test sets.
class ThreadChoiceTest : public testing::Test {
 protected:
  class Trial : public ThreadTrial {
   public:
    Trial(ThreadChoiceTest& test, std::size_t threads) : test_(test), threads_(threads) {}
    double ns_per_byte() override {
      ++test_.measurements_;
      return test_.ns_per_byte_.at(threads_);
    }

   private:
    ThreadChoiceTest& test_;
    std::size_t threads_;
  };

  ThreadChoice choose(std::int64_t now_s, bool renew = false) {
    measurements_ = 0;
    return choose_threads({{0, 1, 2, 3}, {0, 1}, {0}}, {folder_ / "", kKey, now_s, renew, load_file_},
                          [&](const std::vector<int>& cpus) { return readable_ ? std::make_unique<Trial>(*this, cpus.size()) : nullptr; });
  }
  void expect(const ThreadChoice& choice, std::size_t threads, std::int64_t measured_s) {
    EXPECT_EQ(choice.cpus.size(), threads);
    EXPECT_EQ(choice.measured_s, measured_s);
    const auto kept = read_thread_choice(folder_ / "", kKey, kNow + 2 * kHour);
    ASSERT_TRUE(kept);
    EXPECT_EQ(kept->threads, static_cast<int>(threads));
    EXPECT_EQ(kept->measured_s, measured_s);
  }

  const MeasurementKey kKey{"host", "avx2", 7, 0, 0, 1};
  const test::TemporaryFolder folder_;
  std::map<std::size_t, double> ns_per_byte_{{4, 1.0}, {2, 2.0}, {1, 4.0}};
  bool readable_ = true;
  std::string load_file_;
  int measurements_ = 0;
};

TEST_F(ThreadChoiceTest, ThreadsKeptFromABusyMachine_areCorrectedAtTheNextUse) {
  for (const int wrong : {1, 2}) {
    keep_thread_choice(folder_ / "", kKey, wrong, kNow);
    expect(choose(kNow + kHour), 4, kNow + kHour);
  }
  ns_per_byte_ = {{4, 1.0}, {2, 0.8}, {1, 0.6}};  // the machine has other load now
  expect(choose(kNow + 2 * kHour), 1, kNow + 2 * kHour);
}

TEST_F(ThreadChoiceTest, ThreadsThatStillProveFastest_areUsedAfterAFewQuickMeasurements) {
  expect(choose(kNow), 4, kNow);
  const int first = measurements_;
  expect(choose(kNow + kHour), 4, kNow);
  EXPECT_GT(measurements_, 0);
  EXPECT_LT(measurements_, first);
  ns_per_byte_ = {{4, 1.05}, {2, 1.0}, {1, 1.0}};  // less than the differences between measurements
  expect(choose(kNow + kHour), 4, kNow);
  ns_per_byte_ = {{4, 2.0}, {2, 1.0}, {1, 2.0}};
  expect(choose(kNow + kHour), 2, kNow + kHour);
  expect(choose(kNow + 2 * kHour), 2, kNow + kHour);
}

TEST_F(ThreadChoiceTest, ChoiceOfABusyMachine_isUsedButNotKept) {
  load_file_ = folder_ / "loadavg";
  const auto cpus = ::sysconf(_SC_NPROCESSORS_ONLN);
  test::write_file(load_file_, std::to_string(cpus) + ".01 0.00 0.00 3/200 4242\n");
  const ThreadChoice choice = choose(kNow);
  EXPECT_EQ(choice.cpus.size(), 4u);
  EXPECT_EQ(choice.measured_s, kNow);
  EXPECT_FALSE(read_thread_choice(folder_ / "", kKey, kNow));
  test::write_file(load_file_, std::to_string(cpus) + ".00 99.00 99.00 3/200 4242\n");
  expect(choose(kNow), 4, kNow);
}

TEST(Load, aboveTheNumberOfCpus_isABusyMachine) {
  const test::TemporaryFolder folder;
  test::write_file(folder / "loadavg", "8.01 0.50 0.25 3/200 4242\n");
  EXPECT_TRUE(is_busy(folder / "loadavg", 8));
  EXPECT_FALSE(is_busy(folder / "loadavg", 9));
  test::write_file(folder / "loadavg", "none\n");
  EXPECT_FALSE(is_busy(folder / "loadavg", 1)) << "cannot be read";
  EXPECT_FALSE(is_busy(folder / "absent", 1));
  EXPECT_FALSE(is_busy("", 1));
}

TEST_F(ThreadChoiceTest, RenewedOrImpossibleThreads_areMeasuredAnew) {
  expect(choose(kNow), 4, kNow);
  expect(choose(kNow + kHour, true), 4, kNow + kHour);
  keep_thread_choice(folder_ / "", kKey, 3, kNow);  // not among the choices
  expect(choose(kNow + kHour), 4, kNow + kHour);
}

TEST_F(ThreadChoiceTest, ModelThatCannotBeReadInTime_leavesWhatIsKept) {
  readable_ = false;
  EXPECT_EQ(choose(kNow).cpus.size(), 4u);
  EXPECT_EQ(choose(kNow).measured_s, 0);
  EXPECT_FALSE(read_thread_choice(folder_ / "", kKey, kNow)) << "nothing was measured";
  keep_thread_choice(folder_ / "", kKey, 2, kNow);
  expect(choose(kNow + kHour), 2, kNow);
}

TEST(MeasuredThreads, OfSeveralRanks_areNamedWithTheRanksInTheTable) {
  Generation run;
  for (const int threads : {2, 1, 2, 4, 3}) {
    run.per_rank.emplace_back();
    run.per_rank.back().threads = threads;
  }
  run.per_rank.back().role = "lost";
  run.threads_measured_s = {kNow, kNow - kHour, kNow, 0, kNow};
  const auto minute = [](std::time_t s) {
    char text[8] = "";
    std::strftime(text, sizeof(text), "%H:%M", std::localtime(&s));
    return std::string(text);
  };
  const std::string table = to_table(run);
  EXPECT_NE(table.find("\nranks 0, 2: 2 threads, measured " + minute(kNow) + "\n"), std::string::npos) << table;
  EXPECT_NE(table.find("\nrank 1: 1 thread, measured " + minute(kNow - kHour) + "\n"), std::string::npos) << table;
  EXPECT_EQ(table.find("4 threads, measured"), std::string::npos) << "they were given";
  EXPECT_EQ(table.find("3 threads, measured"), std::string::npos) << "that rank is lost";
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
  const auto warnings_with = [](int threads) {
    return test::run(test::yamata({"run", "-m", test::kModel, "-p", "A king", "-n", "2", "-t", std::to_string(threads)})).warnings();
  };
  const std::vector<std::string> warnings = warnings_with(Topology::detect().logical_cpus + 1);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("lower -t"), std::string::npos) << warnings[0];
  EXPECT_TRUE(warnings_with(1).empty());
}

}  // namespace
}  // namespace yamata
