// Links that are kept from one job to the next.
#include "launch/program/planning/kept_links.hpp"

#include <gtest/gtest.h>

#include "tests/launch/planning/times.hpp"
#include "tests/temporary_folder.hpp"

namespace yamata {
namespace {

class KeptLinksTest : public testing::Test {
 protected:
  KeptLinksTest() : hellos_(3) {
    for (std::size_t r = 0; r < hellos_.size(); ++r) hellos_[r].host = "h" + std::to_string(r);
  }
  /// With the given link of the second rank; the third rank's is always the same.
  std::vector<Link> settle(const Link& second, std::int64_t now_s = kNow, bool renew = false) {
    const std::vector<Link> measured{{}, second, {1e-3, 0, 1e7}};
    const auto links = settled_links(parent_ / "kept", hellos_, measured, now_s, renew);
    EXPECT_EQ(links.size(), 3u);
    EXPECT_DOUBLE_EQ(links[2].latency_s, 1e-3);
    return links;
  }

  std::vector<wire::Hello> hellos_;
  test::TemporaryFolder parent_;
};

TEST_F(KeptLinksTest, LinkThatIsAsItWas_isTheKeptOne) {
  EXPECT_DOUBLE_EQ(settle({1e-4, 2e-5, 1e8})[1].latency_s, 1e-4);
  const Link kept = settle({1.3e-4, 9e-5, 1.9e8})[1];
  EXPECT_DOUBLE_EQ(kept.latency_s, 1e-4);
  EXPECT_DOUBLE_EQ(kept.wake_up_s, 2e-5);
  EXPECT_DOUBLE_EQ(kept.bytes_per_s, 1e8);
  EXPECT_DOUBLE_EQ(settle({0.8e-4, 2e-5, 0.6e8})[1].latency_s, 1e-4);
}

TEST_F(KeptLinksTest, LinkThatIsAnother_isKeptInItsPlace) {
  settle({1e-4, 2e-5, 1e8});
  EXPECT_DOUBLE_EQ(settle({2e-4, 2e-5, 1e8})[1].latency_s, 2e-4);
  EXPECT_DOUBLE_EQ(settle({1.9e-4, 2e-5, 1e8})[1].latency_s, 2e-4);
  EXPECT_DOUBLE_EQ(settle({2e-4, 2e-5, 1e7})[1].bytes_per_s, 1e7) << "as slow as a tenth";
  EXPECT_DOUBLE_EQ(settle({2.1e-4, 2e-5, 1e7}, kNow, true)[1].latency_s, 2.1e-4) << "anew, as asked for";
  EXPECT_DOUBLE_EQ(settle({2.2e-4, 2e-5, 1e7}, kNow + kDay)[1].latency_s, 2.2e-4) << "a day later";
}

TEST_F(KeptLinksTest, OtherMachines_haveOtherLinks) {
  settle({1e-4, 2e-5, 1e8});
  hellos_[1].host = "another";
  EXPECT_DOUBLE_EQ(settle({1.1e-4, 2e-5, 1e8})[1].latency_s, 1.1e-4);
}

TEST(PacingWarning, IsGivenForBbrOnFarLinks) {
  const std::vector<Link> near{{}, {1e-4, 2e-5, 1e8}}, far{{}, {1e-4, 2e-5, 1e8}, {25e-3, 2e-5, 1e8}};
  EXPECT_NE(pacing_warning(far, "bbr").find("25 ms"), std::string::npos);
  EXPECT_NE(pacing_warning(far, "bbr2"), "");
  EXPECT_EQ(pacing_warning(far, "cubic"), "");
  EXPECT_EQ(pacing_warning(near, "bbr"), "");
  EXPECT_EQ(pacing_warning({}, "bbr"), "");
}

}  // namespace
}  // namespace yamata
