// What a device's unit gives the device: graphs that come again with other parameters, and barriers in the stream.
#include "node/cuda/device/launcher.hpp"

#include <gtest/gtest.h>

#include <array>
#include <new>
#include <vector>

#include "node/cuda/device/unit_memory.hpp"
#include "node/cuda/emulation/emulated_device.hpp"
#include "node/error.hpp"

namespace yamata::cuda {
namespace {

constexpr std::int64_t kCols = 40;

/// Rows that are copied on and on: row i + 1 becomes row i's.
class Rows {
 public:
  Rows(EmulatedDevice& device, LaunchOptions options, std::size_t count = 12)
      : device_(device), x_(count * kCols), launcher_(device, options) {}

  Launcher& launcher() { return launcher_; }
  float* row(std::size_t i) { return x_.data() + i * kCols; }
  void fill(std::size_t i, float value) { std::fill_n(row(i), kCols, value); }
  void copy(std::size_t from, std::size_t to, std::int64_t rows = 1) {
    device_.kernels().copy({row(from), nullptr, kCols, rows, kCols, row(to), kCols}, &launcher_);
    launcher_.named("a copy");
  }
  void begin(std::int64_t rows = 1, std::size_t barriers = 0) { launcher_.begin({x_.data(), rows, 4}, barriers, true); }
  void end() { launcher_.synchronize(); }

 private:
  EmulatedDevice& device_;
  std::vector<float> x_;
  Launcher launcher_;  // last: kernels that use the rows have ended when it has
};

/// The same list again and again, whose first copy is from another row each time.
std::vector<float> copied(InjectedFault fault, GraphCounts* counts = nullptr, bool graphs = true) {
  EmulatedDevice device({.fault = fault});
  Rows rows(device, {.graphs = graphs});
  std::vector<float> found;
  for (std::size_t run = 0; run < 4; ++run) {
    for (std::size_t i = 0; i < 12; ++i) rows.fill(i, static_cast<float>(100 * run + i));
    rows.begin();
    rows.copy(run, 8);
    for (std::size_t i = 8; i < 11; ++i) rows.copy(i, i + 1);
    rows.end();
    found.push_back(rows.row(11)[kCols - 1]);
  }
  if (counts) *counts = rows.launcher().counts();
  return found;
}

TEST(EmulatedDevice, memoryOfTheHost_takesNoneOfItsOwn_unlessBothAreOne) {
  for (const bool unified : {false, true}) {
    EmulatedDevice device({.unified = unified, .memory_bytes = 3 << 12});
    const auto own = device.allocate(2 << 12, DeviceMemory::kLocal);
    EXPECT_THROW(device.allocate(2 << 12, DeviceMemory::kLocal), std::bad_alloc);
    if (unified) {
      EXPECT_THROW(device.allocate(2 << 12, DeviceMemory::kMapped), std::bad_alloc);
    } else {
      EXPECT_NO_THROW(device.allocate(2 << 12, DeviceMemory::kMapped));
    }
    EXPECT_EQ(device.used_bytes(), 2u << 12);
  }
}

TEST(Launcher, aListThatComesAgain_isOneGraph_withTheParametersOfThisRun) {
  const std::vector<float> expected{0, 101, 202, 303};
  GraphCounts with, without;
  EXPECT_EQ(copied(InjectedFault::kNone, &with), expected);
  EXPECT_EQ(copied(InjectedFault::kNone, &without, false), expected);
  EXPECT_EQ(with.launched, 3u) << "the first comes once";
  EXPECT_EQ(with.built, 1u);
  EXPECT_EQ(with.updated, 2u) << "one launch of each later run";
  EXPECT_EQ(without.launched, 0u);
}

TEST(Launcher, aGraphWithTheLastRunsParameters_isFound) { EXPECT_NE(copied(InjectedFault::kStaleGraph), copied(InjectedFault::kNone)); }

/// Runs of one and of two rows in turn.
std::vector<float> widths_in_turn(InjectedFault fault, GraphCounts* counts = nullptr) {
  EmulatedDevice device({.fault = fault});
  Rows rows(device, {});
  std::vector<float> found;
  for (std::size_t run = 0; run < 6; ++run) {
    for (std::size_t i = 0; i < 12; ++i) rows.fill(i, static_cast<float>(100 * run + i));
    const auto width = static_cast<std::int64_t>(1 + run % 2);
    rows.begin(width);
    for (std::size_t i = 0; i < 8; i += 2) rows.copy(i, i + 2, width);
    rows.end();
    found.insert(found.end(), {*rows.row(8), *rows.row(9)});
  }
  if (counts) *counts = rows.launcher().counts();
  return found;
}

TEST(Launcher, eachWidthHasItsGraph) {
  GraphCounts counts;
  EXPECT_EQ(widths_in_turn(InjectedFault::kNone, &counts), (std::vector<float>{0, 9, 100, 101, 200, 209, 300, 301, 400, 409, 500, 501}));
  EXPECT_EQ(counts.built, 2u);
  EXPECT_EQ(counts.launched, 4u);
  EXPECT_EQ(counts.updated, 0u);
}

TEST(Launcher, aGraphOfAnotherWidth_isFound) {
  EXPECT_NE(widths_in_turn(InjectedFault::kOtherGraph), widths_in_turn(InjectedFault::kNone));
}

/// Graphs are found by their kernels: where others come in the same place, another one is built.
TEST(Launcher, otherKernelsInTheSamePlace_areAnotherGraph) {
  EmulatedDevice device;
  Rows rows(device, {});
  for (std::size_t run = 0; run < 6; ++run) {
    rows.fill(0, 3);
    rows.begin();
    rows.copy(0, 1);
    if (run % 2 == 0) rows.copy(1, 2);
    if (run % 2 == 1) device.kernels().scale({rows.row(1), kCols, 2, 0}, &rows.launcher());
    rows.copy(1, 2);
    rows.end();
    EXPECT_EQ(*rows.row(2), run % 2 == 0 ? 3 : 6);
  }
  EXPECT_EQ(rows.launcher().counts().built, 2u);
}

TEST(Launcher, manyLists_keepFewGraphs_andAreRight) {
  EmulatedDevice device;
  Rows rows(device, {});
  for (std::int64_t list = 0; list < 700; ++list) {
    for (int twice = 0; twice < 2; ++twice) {
      rows.fill(0, static_cast<float>(list));
      rows.begin(list + 1);
      for (std::size_t i = 0; i < 3; ++i) rows.copy(i, i + 1);
      rows.end();
    }
    ASSERT_EQ(*rows.row(3), static_cast<float>(list));
  }
  EXPECT_EQ(rows.launcher().counts().built, 700u);
}

constexpr LaunchOptions kHostWaits{.graphs = true, .stream_waits = false}, kStreamWaits{.graphs = true, .stream_waits = true},
    kSingly{.graphs = false, .stream_waits = true};

class Barriers : public testing::TestWithParam<LaunchOptions> {
 protected:
  /// Four barriers; before each the host must find the row before it, of which it makes the next one's source. Leaves at that of this
  /// number.
  struct Found {
    std::vector<float> seen;
    float last = 0;
    bool left = false;
  };
  static constexpr std::size_t kBarriers = 4;
  Found run_list(EmulatedDevice& device, Rows& rows, std::size_t leaves_at, bool fails = false) {
    Found found;
    for (std::size_t i = 0; i < 12; ++i) rows.fill(i, 0);
    rows.fill(0, 1);
    rows.begin(1, kBarriers);
    for (std::size_t m = 0; m < kBarriers; ++m) {
      rows.copy(2 * m, 2 * m + 1);
      const auto barrier = [&, m] {
        if (device_ignores_flags_) device.synchronize();  // what comes next has overtaken the barrier by now
        found.seen.push_back(*rows.row(2 * m + 1));
        rows.fill(2 * m + 2, found.seen.back() + 1);
        if (fails && m == leaves_at) throw ClusterError("a rank is lost");
        return m != leaves_at;
      };
      found.left = !rows.launcher().barrier(barrier, false) || rows.launcher().was_stopped();
      if (found.left) break;
    }
    if (!found.left) rows.copy(2 * kBarriers, 2 * kBarriers + 1);
    rows.end();
    found.left = found.left || rows.launcher().was_stopped();
    found.last = *rows.row(2 * kBarriers + 1);
    return found;
  }
  bool device_ignores_flags_ = false;
};

TEST_P(Barriers, eachSeesWhatTheOtherHasWrittenBefore) {
  EmulatedDevice device;
  Rows rows(device, GetParam());
  for (int run = 0; run < 4; ++run) {
    const Found found = run_list(device, rows, kBarriers);
    EXPECT_EQ(found.seen, (std::vector<float>{1, 2, 3, 4}));
    EXPECT_EQ(found.last, 5);
    EXPECT_FALSE(found.left);
    EXPECT_EQ(rows.launcher().stream_waits(), GetParam().stream_waits);
  }
}

TEST_P(Barriers, aListIsLeftAtAnyOfThem_andTheNextIsRight) {
  EmulatedDevice device;
  Rows rows(device, GetParam());
  for (int round = 0; round < 3; ++round) {
    for (std::size_t leaves_at = 0; leaves_at <= kBarriers; ++leaves_at) {
      const Found found = run_list(device, rows, leaves_at);
      EXPECT_EQ(found.left, leaves_at < kBarriers);
      EXPECT_EQ(found.seen.size(), std::min(leaves_at + 1, kBarriers)) << "nobody waits any more";
    }
  }
}

TEST_P(Barriers, oneThatFails_isToldOf_andTheStreamEnds) {
  EmulatedDevice device;
  Rows rows(device, GetParam());
  for (std::size_t at = 0; at < kBarriers; ++at) {
    EXPECT_THROW(run_list(device, rows, at, true), ClusterError);
    rows.launcher().drop();
    device.synchronize();
    EXPECT_EQ(run_list(device, rows, kBarriers).last, 5);
  }
}

TEST_P(Barriers, aDeviceThatFailsAtAnyCall_isToldOf) {
  for (std::uint64_t at = 1; at <= 5; ++at) {
    for (const bool in_stream : {false, true}) {
      EmulatedDevice device({.fails_at = in_stream ? 0 : at, .stream_fails_at = in_stream ? at : 0});
      Rows rows(device, GetParam());
      EXPECT_THROW(run_list(device, rows, kBarriers), ClusterError) << "at " << at;
    }
  }
}

/// Memory is only asked for while no stream waits: a card's call for it waits for the stream.
TEST_P(Barriers, memoryIsHadBetweenThem) {
  EmulatedDevice device;
  Rows rows(device, GetParam());
  UnitMemory memory(rows.launcher());
  for (std::size_t run = 1; run < 4; ++run) {
    rows.begin(1, kBarriers);
    int waits = 0;
    for (std::size_t m = 0; m < kBarriers; ++m) {
      rows.copy(0, 1);
      rows.launcher().barrier([&] { return ++waits > 0; }, false);
      memory.scratch(Scratch::kWhole, 1000 * run + 100 * m);
    }
    rows.end();
    EXPECT_EQ(waits, static_cast<int>(kBarriers));
  }
}

TEST_P(Barriers, aStreamThatDoesNotWait_isFound) {
  if (!GetParam().stream_waits) GTEST_SKIP() << "it does not wait by itself";
  EmulatedDevice device({.fault = InjectedFault::kNoStreamWait});
  Rows rows(device, GetParam());
  device_ignores_flags_ = true;
  EXPECT_NE(run_list(device, rows, kBarriers).last, 5);
}

INSTANTIATE_TEST_SUITE_P(Ways, Barriers, testing::Values(kHostWaits, kStreamWaits, kSingly));

TEST(LaunchOptions, areReadFromWords) {
  const auto read = [](const char* words) {
    setenv("YAMATA_DEVICE", words, 1);
    struct Unset {
      ~Unset() { unsetenv("YAMATA_DEVICE"); }
    } unset;
    return LaunchOptions::from_environment();
  };
  EXPECT_TRUE(read("").graphs);
  EXPECT_FALSE(read("").stream_waits);
  EXPECT_FALSE(read("waits=stream graphs=off").graphs);
  EXPECT_TRUE(read("waits=stream graphs=off").stream_waits);
  EXPECT_THROW(read("waits=never"), UsageError);
}

}  // namespace
}  // namespace yamata::cuda
