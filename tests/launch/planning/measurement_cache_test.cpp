// A measured speed, kept for a day.
#include "launch/program/planning/measurement_cache.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <limits>

#include "tests/launch/planning/times.hpp"
#include "tests/launch/process.hpp"

namespace yamata {
namespace {

const MeasurementKey kKey{"host-1", "avx2", 0xabcdef, 4, 0, 2};

const std::vector<MeasuredSpeed> kOne{{1, kNow}};

class MeasurementCacheTest : public testing::Test {
 protected:
  /// Puts a text in place of a measurement.
  void damage(const std::string& text, const char* kind = ".speed") { keep_value(folder_, {kKey.name(kind), text, kNow + kDay}, kNow); }

  test::TemporaryFolder parent_;
  const std::string folder_ = parent_ / "a/b";
};

TEST_F(MeasurementCacheTest, KeptSpeeds_areReadForADayEach) {
  EXPECT_TRUE(read_speeds(folder_, kKey, kNow).empty());
  keep_speeds(folder_, kKey, std::vector<MeasuredSpeed>{{0.123456789012345, kNow}, {2, kNow + 6 * kHour}}, kNow + 6 * kHour);
  const auto read = read_speeds(folder_, kKey, kNow + 23 * kHour);
  ASSERT_EQ(read.size(), 2u);
  EXPECT_EQ(read[0].ns_per_byte, 0.123456789012345);
  EXPECT_EQ(read[0].measured_s, kNow);
  EXPECT_EQ(read[1].ns_per_byte, 2);
  const auto later = read_speeds(folder_, kKey, kNow + 24 * kHour);
  ASSERT_EQ(later.size(), 1u) << "the first is a day old";
  EXPECT_EQ(later[0].ns_per_byte, 2);
  EXPECT_TRUE(read_speeds(folder_, kKey, kNow + 30 * kHour).empty());
  EXPECT_TRUE(read_speeds(folder_, kKey, kNow).empty()) << "one is from the future";
}

TEST_F(MeasurementCacheTest, HomeThatDoesNotExist_isNotMade) {
  const test::Arguments bench{"bench", "-m", test::kModel, "-p", "0", "-n", "1", "-r", "1", "-t", "measure"};
  test::Arguments command{"env", "-u", "XDG_CACHE_HOME", "HOME=" + (parent_ / "absent"), test::kProgram};
  command.insert(command.end(), bench.begin(), bench.end());
  const test::Outcome outcome = test::run(command);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_FALSE(std::filesystem::exists(parent_ / "absent"));
}

TEST_F(MeasurementCacheTest, SpeedThatWasDisturbed_isOutvotedByTheRunsAfterIt) {
  std::vector<MeasuredSpeed> kept{{1.3, kNow}};
  EXPECT_EQ(median_ns_per_byte(kept), 1.3);
  for (int run = 1; run <= 2; ++run) {
    EXPECT_TRUE(agrees(kept, 1));
    kept = with_latest(kept, {1, kNow + run});
  }
  EXPECT_EQ(median_ns_per_byte(kept), 1);
  kept = with_latest(kept, {1.3, kNow + 3});
  kept = with_latest(kept, {1.01, kNow + 4});
  EXPECT_EQ(median_ns_per_byte(kept), 1.01) << "a check that is off changes little";
  kept = with_latest(kept, {1.01, kNow + 5});
  ASSERT_EQ(kept.size(), 5u);
  EXPECT_EQ(kept.front().measured_s, kNow + 1) << "the latest five count";
  EXPECT_FALSE(agrees(kept, 1.4));
  EXPECT_FALSE(agrees(kept, 0.6));
  EXPECT_FALSE(agrees({}, 1));
}

TEST_F(MeasurementCacheTest, SpeedThatEachRunConfirms_expiresAllTheSame) {
  std::vector<MeasuredSpeed> kept{{1, kNow}};
  for (int hour = 1; hour <= 40; ++hour) {
    const std::int64_t now = kNow + hour * kHour;
    keep_speeds(folder_, kKey, kept, now);
    kept = read_speeds(folder_, kKey, now);
    ASSERT_TRUE(agrees(kept, 1.2));
    kept = with_latest(kept, {1.2, now});
  }
  EXPECT_EQ(median_ns_per_byte(kept), 1.2) << "what the machine has been since";
}

TEST_F(MeasurementCacheTest, OtherCircumstances_haveOtherNames) {
  keep_speeds(folder_, kKey, kOne, kNow);
  for (const MeasurementKey& other :
       {MeasurementKey{"host-2", "avx2", 0xabcdef, 4, 0, 2}, MeasurementKey{"host-1", "scalar", 0xabcdef, 4, 0, 2},
        MeasurementKey{"host-1", "avx2", 0xabcdee, 4, 0, 2}, MeasurementKey{"host-1", "avx2", 0xabcdef, 3, 0, 2},
        MeasurementKey{"host-1", "avx2", 0xabcdef, 4, 1, 2}, MeasurementKey{"host-1", "avx2", 0xabcdef, 4, 0, 3},
        MeasurementKey{"host-1", "avx2", 0xabcdef, 4, 0, 2, Numa::kOff}})
    EXPECT_TRUE(read_speeds(folder_, other, kNow).empty()) << other.name();
  EXPECT_EQ((MeasurementKey{"a b\nc", "avx2", 1, 1, 0, 1}.name().find_first_of(" \n")), std::string::npos);
}

TEST_F(MeasurementCacheTest, ThreadChoice_isKeptBesideTheSpeed) {
  EXPECT_FALSE(read_thread_choice(folder_, kKey, kNow));
  keep_speeds(folder_, kKey, kOne, kNow);
  keep_thread_choice(folder_, kKey, 3, kNow);
  const auto kept = read_thread_choice(folder_, kKey, kNow + kHour);
  ASSERT_TRUE(kept);
  EXPECT_EQ(kept->threads, 3);
  EXPECT_EQ(kept->measured_s, kNow);
  EXPECT_EQ(read_speeds(folder_, kKey, kNow).size(), 1u);
  EXPECT_FALSE(read_thread_choice(folder_, kKey, kNow + 24 * kHour));
  damage("yamata-threads-1 2.5 1800000000", ".threads");
  EXPECT_FALSE(read_thread_choice(folder_, kKey, kNow));
}

TEST_F(MeasurementCacheTest, WidthMultiples_areKeptTogether) {
  const std::vector<double> multiples{1.25, 1.5, 2};
  EXPECT_FALSE(read_width_multiples(folder_, kKey, kNow));
  keep_width_multiples(folder_, kKey, multiples, kNow);
  EXPECT_EQ(read_width_multiples(folder_, kKey, kNow + kHour), multiples);
  EXPECT_FALSE(read_width_multiples(folder_, kKey, kNow + 24 * kHour));
  EXPECT_TRUE(read_speeds(folder_, kKey, kNow).empty());
  for (const char* text : {"yamata-widths-1 1 2 1800000000", "yamata-widths-1 1 0 3 1800000000", "yamata-widths-1 1 2 3 4 1800000000"}) {
    damage(text, ".widths");
    EXPECT_FALSE(read_width_multiples(folder_, kKey, kNow)) << text;
  }
}

TEST_F(MeasurementCacheTest, FirstChoices_areThoseOfAPairOfModels) {
  EXPECT_FALSE(read_first_choices(folder_, 1, 2, kNow));
  keep_first_choices(folder_, 1, 2, {0.75, 0.5, 1.25}, kNow);
  const auto kept = read_first_choices(folder_, 1, 2, kNow + kHour);
  ASSERT_TRUE(kept);
  EXPECT_EQ(kept->right, 0.75);
  EXPECT_EQ(kept->probability, 0.5);
  EXPECT_EQ(kept->cost, 1.25);
  EXPECT_FALSE(read_first_choices(folder_, 2, 1, kNow));
  EXPECT_FALSE(read_first_choices(folder_, 1, 2, kNow + 24 * kHour));
}

TEST_F(MeasurementCacheTest, SavingsOfADraft_areKept_forADayAfterTheFirst) {
  EXPECT_FALSE(read_savings(folder_, kKey, kNow));
  keep_savings(folder_, kKey, {{.steps = 40, .tokens = 60, .own = 0, .times = 50, .costs = 8}, kNow}, kNow);
  const auto kept = read_savings(folder_, kKey, kNow + kHour);
  ASSERT_TRUE(kept);
  EXPECT_EQ(kept->sums.steps, 40);
  EXPECT_EQ(kept->sums.tokens, 60);
  EXPECT_NEAR(kept->sums.own, 0, 1e-6);
  EXPECT_EQ(kept->sums.times, 50);
  EXPECT_EQ(kept->sums.costs, 8);
  EXPECT_EQ(kept->since_s, kNow);
  EXPECT_FALSE(read_savings(folder_, kKey, kNow + 24 * kHour));
}

TEST_F(MeasurementCacheTest, SavingsThatCannotBe_areNeitherReadNorKept) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInfinite = std::numeric_limits<double>::infinity();
  const DraftSums good{.steps = 500, .tokens = 900, .own = 900, .times = 800, .costs = 800};
  std::vector<DraftSums> bad(12, good);
  bad[0].steps = 502, bad[1].steps = 1e-9, bad[2].own = 901, bad[3].costs = 801, bad[4].costs = -1, bad[5].tokens = 1e9, bad[6].times = 1e9;
  bad[7].times = bad[7].costs = 0.1, bad[8].tokens = bad[8].own = 0.1, bad[9].times = kInfinite, bad[10].costs = kNan,
  bad[11].tokens = kNan;
  for (const DraftSums& s : bad) {
    const std::string line = fmt::format("yamata-savings-2 {} {} {} {} {} {}", s.steps, s.tokens, s.own, s.times, s.costs, kNow);
    keep_savings(folder_, kKey, {good, kNow}, kNow);
    ASSERT_TRUE(read_savings(folder_, kKey, kNow));
    keep_savings(folder_, kKey, {s, kNow}, kNow);
    EXPECT_TRUE(read_savings(folder_, kKey, kNow)) << "kept: " << line;
    damage(line, ".savings");
    EXPECT_FALSE(read_savings(folder_, kKey, kNow)) << line;
  }
}

TEST_F(MeasurementCacheTest, MalformedText_isNoSpeed) {
  keep_speeds(folder_, kKey, kOne, kNow);
  damage("yamata-speed-2 0.5 1800000000 0.25 1799999999");
  EXPECT_EQ(read_speeds(folder_, kKey, kNow).size(), 2u);
  for (const char* text :
       {"", "yamata-speed-2", "yamata-speed-2 0.5", "yamata-speed-2 nan 1800000000", "yamata-speed-2 -1 1800000000",
        "yamata-speed-2 0 1800000000", "yamata-speed-1 0.5 1800000000", "yamata-speed-2 x 1800000000", "yamata-speed-2 0.5 1800000000 more",
        "yamata-speed-2 0.5 1800000000 0.5", "yamata-speed-2 0.5 99999999999999999999"}) {
    damage(text);
    EXPECT_TRUE(read_speeds(folder_, kKey, kNow).empty()) << text;
  }
}

}  // namespace
}  // namespace yamata
