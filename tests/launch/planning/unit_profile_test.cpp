// Measured shares: kept for a day, and only used for what they were measured for.
#include "launch/program/planning/unit_profile.hpp"

#include <gtest/gtest.h>

#include "node/cpu/cpu_unit.hpp"
#include "node/spin_wait.hpp"
#include "tests/launch/planning/times.hpp"
#include "tests/launch/process.hpp"

namespace yamata {
namespace {

const MeasurementKey kProfileKey{"host-1", "avx2", 0xabcdef, 4, 0, 1, Numa::kAuto, "cpu:0+cpu:1"};
const WorkKind kProduct{.what = WorkKind::What::kProduct, .outputs = 128, .inputs = 64, .width_class = 3, .context = 0};
const WorkKind kAttention{.what = WorkKind::What::kAttention, .outputs = 8, .inputs = 32, .width_class = 0, .context = 256};

UnitProfile profile() { return {0.125, {{kProduct, {0.001, 0.003}, {0.7, 0.3}}, {kAttention, {0.001, 0.004}, {0.25, 0.75}}}}; }

class UnitProfileTest : public testing::Test {
 protected:
  void write(const std::string& text) { keep_value(folder_ / "", {kProfileKey.name(".units"), text, kNow + kKept_s}, kNow); }
  std::optional<UnitProfile> read(std::int64_t now_s = kNow) { return read_unit_profile(folder_ / "", kProfileKey, now_s); }

  test::TemporaryFolder folder_;
};

TEST_F(UnitProfileTest, isReadForADay) {
  EXPECT_FALSE(read());
  keep_unit_profile(folder_ / "", kProfileKey, profile(), kNow);
  const auto kept = read(kNow + 23 * kHour);
  ASSERT_TRUE(kept);
  EXPECT_EQ(kept->ns_per_byte, 0.125);
  ASSERT_EQ(kept->works.size(), 2u);
  EXPECT_EQ(kept->works[0].kind, kProduct);
  EXPECT_EQ(kept->works[0].isolated_s, (std::vector<double>{0.001, 0.003}));
  EXPECT_EQ(kept->works[1].kind, kAttention);
  EXPECT_EQ(kept->works[1].shares, (std::vector<double>{0.25, 0.75}));
  EXPECT_FALSE(read(kNow + 24 * kHour));
  EXPECT_FALSE(read(kNow - 1));
  MeasurementKey other = kProfileKey;
  other.units = "cpu:0+cpu:2";
  EXPECT_FALSE(read_unit_profile(folder_ / "", other, kNow)) << "of other units";
}

TEST_F(UnitProfileTest, whatCannotBeUnderstoodDoesNotCount) {
  const std::string head = "yamata-units-2 0.125 1800000000;", good = "0 128 64 3 0 2 0.001 0.7 0.003 0.3;";
  write(head + good);
  EXPECT_TRUE(read());
  for (const std::string& text :
       {std::string(), head, "yamata-units-1 0.125 1800000000;" + good, "yamata-units-2 -1 1800000000;" + good,
        head + "2 128 64 3 0 2 1 0.7 1 0.3;", head + "0 0 64 3 0 2 1 0.7 1 0.3;", head + "0 128 64 6 0 2 1 0.7 1 0.3;",
        head + "0 128 64 3 4096 2 1 0.7 1 0.3;", head + "0 128 64 3 0 1 1 1;", head + "0 128 64 3 0 2 1 0.7 1;",
        head + "0 128 64 3 0 2 1 0.7 1 1.3;", head + "0 128 64 3 0 2 nan 0.7 1 0.3;", head + good + "0 128 64 3 0 3 1 0.3 1 0.3 1 0.4;",
        head + "0 128 64 3 0 2 1 0.7 1 0.3 more;"}) {
    write(text);
    EXPECT_FALSE(read()) << text;
  }
}

TEST_F(UnitProfileTest, isAppliedByItsRule) {
  std::vector<UnitPart> parts;
  for (const char* name : {"cpu:0", "cpu:1"})
    parts.push_back({name, std::make_unique<CpuUnit>(std::vector<int>{-1}, cpu::Isa::kScalar), 1});
  SplitUnit unit(std::move(parts), false, kSpinsUnbound);
  const auto share = [&](const WorkKind& kind) { return unit.shares().of(unit.shares().label(kind))[0]; };
  EXPECT_EQ(share(kProduct), 0.5);
  apply(profile(), ShareRule::kTuned, unit);
  EXPECT_EQ(share(kProduct), 0.7);
  EXPECT_EQ(share(kAttention), 0.25);
  apply(profile(), ShareRule::kIsolated, unit);
  EXPECT_DOUBLE_EQ(share(kProduct), 0.75);
  EXPECT_DOUBLE_EQ(share(kAttention), 0.8);
  unit.shares().forget();
  EXPECT_EQ(share(kProduct), 0.5);
}

}  // namespace
}  // namespace yamata
