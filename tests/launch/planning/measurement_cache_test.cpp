// A measured speed, kept for a day.
#include "launch/planning/measurement_cache.hpp"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/launch/process.hpp"

namespace yamata {
namespace {

constexpr std::int64_t kNow = 1'800'000'000, kHour = 3600;
const MeasurementKey kKey{"host-1", "avx2", 0xabcdef, 4, 0, 2};

class MeasurementCacheTest : public testing::Test {
 protected:
  void damage(const std::string& text) { test::write_file(folder_ + "/" + kKey.file_name(), text); }

  test::TemporaryFolder parent_;
  const std::string folder_ = parent_ / "a/b";
};

TEST_F(MeasurementCacheTest, KeptSpeed_isReadForADay) {
  EXPECT_FALSE(read_ns_per_byte(folder_, kKey, kNow));
  keep_ns_per_byte(folder_, kKey, 0.123456789012345, kNow);
  EXPECT_EQ(read_ns_per_byte(folder_, kKey, kNow), 0.123456789012345);
  EXPECT_EQ(read_ns_per_byte(folder_, kKey, kNow + 23 * kHour), 0.123456789012345);
  EXPECT_FALSE(read_ns_per_byte(folder_, kKey, kNow + 24 * kHour));
  EXPECT_FALSE(read_ns_per_byte(folder_, kKey, kNow - 1)) << "from the future";
  keep_ns_per_byte(folder_, kKey, 2, kNow);
  EXPECT_EQ(read_ns_per_byte(folder_, kKey, kNow), 2);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);
}

TEST_F(MeasurementCacheTest, KeptSpeed_isMendedByChecksAndGivenUpWhereTheyDisagree) {
  EXPECT_EQ(checked_ns_per_byte(1, 1), 1);
  double disturbed = 1.3;
  for (int run = 0; run < 20; ++run) disturbed = checked_ns_per_byte(disturbed, 1).value_or(0);
  EXPECT_NEAR(disturbed, 1, 0.01);
  EXPECT_NEAR(checked_ns_per_byte(1, 1.2).value_or(0), 1, 0.1) << "noise moves it little";
  EXPECT_FALSE(checked_ns_per_byte(1, 1.4));
  EXPECT_FALSE(checked_ns_per_byte(1, 0.6));
}

TEST_F(MeasurementCacheTest, OtherCircumstances_haveOtherFiles) {
  keep_ns_per_byte(folder_, kKey, 1, kNow);
  for (const MeasurementKey& other :
       {MeasurementKey{"host-2", "avx2", 0xabcdef, 4, 0, 2}, MeasurementKey{"host-1", "scalar", 0xabcdef, 4, 0, 2},
        MeasurementKey{"host-1", "avx2", 0xabcdee, 4, 0, 2}, MeasurementKey{"host-1", "avx2", 0xabcdef, 3, 0, 2},
        MeasurementKey{"host-1", "avx2", 0xabcdef, 4, 1, 2}, MeasurementKey{"host-1", "avx2", 0xabcdef, 4, 0, 3},
        MeasurementKey{"host-1", "avx2", 0xabcdef, 4, 0, 2, Numa::kOff}})
    EXPECT_FALSE(read_ns_per_byte(folder_, other, kNow)) << other.file_name();
  EXPECT_EQ((MeasurementKey{"../x/y", "avx2", 1, 1, 0, 1}.file_name().find('/')), std::string::npos);
}

TEST_F(MeasurementCacheTest, ThreadChoice_isKeptBesideTheSpeed) {
  EXPECT_FALSE(read_thread_choice(folder_, kKey, kNow));
  keep_ns_per_byte(folder_, kKey, 8, kNow);
  keep_thread_choice(folder_, kKey, 3, kNow);
  const auto kept = read_thread_choice(folder_, kKey, kNow + kHour);
  ASSERT_TRUE(kept);
  EXPECT_EQ(kept->threads, 3);
  EXPECT_EQ(kept->measured_s, kNow);
  EXPECT_EQ(read_ns_per_byte(folder_, kKey, kNow), 8);
  EXPECT_FALSE(read_thread_choice(folder_, kKey, kNow + 24 * kHour));
  test::write_file(folder_ + "/" + kKey.file_name(".threads"), "yamata-threads-1 2.5 1800000000\n");
  EXPECT_FALSE(read_thread_choice(folder_, kKey, kNow));
}

TEST_F(MeasurementCacheTest, WidthMultiples_areKeptTogether) {
  const std::vector<double> multiples{1.25, 1.5, 2};
  EXPECT_FALSE(read_width_multiples(folder_, kKey, kNow));
  keep_width_multiples(folder_, kKey, multiples, kNow);
  EXPECT_EQ(read_width_multiples(folder_, kKey, kNow + kHour), multiples);
  EXPECT_FALSE(read_width_multiples(folder_, kKey, kNow + 24 * kHour));
  EXPECT_FALSE(read_ns_per_byte(folder_, kKey, kNow));
  for (const char* text :
       {"yamata-widths-1 1 2 1800000000\n", "yamata-widths-1 1 0 3 1800000000\n", "yamata-widths-1 1 2 3 4 1800000000\n"}) {
    test::write_file(folder_ + "/" + kKey.file_name(".widths"), text);
    EXPECT_FALSE(read_width_multiples(folder_, kKey, kNow)) << text;
  }
}

TEST_F(MeasurementCacheTest, FirstChoiceRate_isThatOfAPairOfModels) {
  EXPECT_FALSE(read_first_choice_rate(folder_, 1, 2, kNow));
  keep_first_choice_rate(folder_, 1, 2, 0.75, kNow);
  EXPECT_EQ(read_first_choice_rate(folder_, 1, 2, kNow + kHour), 0.75);
  EXPECT_FALSE(read_first_choice_rate(folder_, 2, 1, kNow));
  EXPECT_FALSE(read_first_choice_rate(folder_, 1, 2, kNow + 24 * kHour));
}

TEST_F(MeasurementCacheTest, MalformedFile_isNoSpeed) {
  keep_ns_per_byte(folder_, kKey, 1, kNow);
  damage("yamata-speed-1 0.5 1800000000\n");
  EXPECT_EQ(read_ns_per_byte(folder_, kKey, kNow), 0.5);
  for (const char* text : {"", "yamata-speed-1", "yamata-speed-1 0.5", "yamata-speed-1 nan 1800000000", "yamata-speed-1 -1 1800000000",
                           "yamata-speed-1 0 1800000000", "yamata-speed-2 0.5 1800000000", "yamata-speed-1 x 1800000000",
                           "yamata-speed-1 0.5 1800000000 more", "yamata-speed-1 0.5 99999999999999999999"}) {
    damage(text);
    EXPECT_FALSE(read_ns_per_byte(folder_, kKey, kNow)) << text;
  }
}

TEST_F(MeasurementCacheTest, FolderThatCannotBe_isNoFault) {
  test::write_file(parent_ / "file", "x");
  EXPECT_NO_THROW(keep_ns_per_byte(parent_ / "file", kKey, 1, kNow));
  EXPECT_FALSE(read_ns_per_byte(parent_ / "file", kKey, kNow));
  EXPECT_NO_THROW(keep_ns_per_byte("", kKey, 1, kNow));
}

}  // namespace
}  // namespace yamata
