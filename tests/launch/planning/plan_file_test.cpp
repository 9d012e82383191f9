// Plans that are written and read again.
#include "launch/program/planning/plan_file.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "node/error.hpp"
#include "src/model/shard.hpp"
#include "tests/launch/process.hpp"
#include "tests/paths.hpp"

namespace yamata {
namespace {

using Json = nlohmann::json;

class PlanFileTest : public testing::Test {
 protected:
  PlanFileTest() {
    hosts_[0] = {.name = "oak", .ns_per_byte = 100, .width = simulation::WidthCost({1, 1.25, 2}), .threads = 4};
    hosts_[1] = {.name = "ash", .ns_per_byte = 150, .free_bytes = 1 << 30, .link = simulation::NetworkOptions{200'000, 1e7, 30'000}};
    job_.group_costs = {{2, 1.25, 400'000}, {4, 1.5, 900'000}};
    job_.acceptance = 0.75;
    job_.over_confidence = -0.25;
    job_.draft = &draft_;
    job_.draft_cost = 1.25;
    text_ = to_json(job_, hosts_, {}, plan_layouts(job_, hosts_, {}, 3));
  }
  std::optional<PlanFile> read(const std::string& text) const {
    test::write_file(folder_ / "plan.json", text);
    return read_plan_file(folder_ / "plan.json");
  }

  const ModelFile target_ = ModelFile::open(test::source_path("/models/tales-target-q8_0.gguf"));
  const ModelFile draft_ = ModelFile::open(test::source_path("/models/tales-draft-q8_0.gguf"));
  std::vector<PlannedHost> hosts_{2};
  PlannedJob job_{.target = target_};
  std::string text_;
  const test::TemporaryFolder folder_;
};

TEST_F(PlanFileTest, WhatIsWritten_isRead) {
  const auto plan = read(text_);
  ASSERT_TRUE(plan);
  ASSERT_EQ(plan->hosts.size(), 2u);
  EXPECT_EQ(plan->hosts[1].name, "ash");
  EXPECT_EQ(plan->hosts[0].ns_per_byte, 100);
  EXPECT_EQ(plan->hosts[0].free_bytes, hosts_[0].free_bytes);
  EXPECT_EQ(plan->hosts[1].free_bytes, 1u << 30);
  for (const std::size_t rows : {1, 2, 3, 4, 40}) EXPECT_DOUBLE_EQ(plan->hosts[0].width(rows), hosts_[0].width(rows)) << rows;
  EXPECT_FALSE(plan->hosts[0].link);
  EXPECT_EQ(plan->hosts[1].link->latency, 200'000);
  EXPECT_EQ(plan->slowest_link().wake_up, 30'000);
  EXPECT_DOUBLE_EQ(plan->slowest_link().bytes_per_s, 1e7);
  ASSERT_EQ(plan->group_costs.size(), 2u);
  EXPECT_EQ(plan->group_costs[1].members, 4);
  EXPECT_EQ(plan->group_costs[1].computing, 1.5);
  EXPECT_EQ(plan->group_costs[1].exchange, 900'000);
  EXPECT_EQ(plan->layers, target_.h.layers);
  EXPECT_EQ(plan->widths.hidden, target_.h.dim);
  EXPECT_EQ(plan->exchange_bytes, exchange_bytes(target_.h));
  EXPECT_DOUBLE_EQ(plan->draft_bytes, token_bytes(draft_));
  EXPECT_EQ(plan->acceptance, 0.75);
  EXPECT_EQ(plan->over_confidence, -0.25);
  EXPECT_EQ(plan->draft_cost, 1.25);
  EXPECT_FALSE(plan->of_run);
  const Json run{{"per_rank", Json::array()}, {"plan", Json::parse(text_)}};
  EXPECT_TRUE(read(run.dump())->of_run);
}

TEST_F(PlanFileTest, WhatIsNoPlan_isNoneAndWhatIsDamaged_isRefused) {
  EXPECT_FALSE(read("{}"));
  EXPECT_FALSE(read("7"));
  try {
    read("no JSON");
    ADD_FAILURE();
  } catch (const ModelError& error) {
    EXPECT_NE(std::string(error.what()).find("plan.json is not JSON"), std::string::npos) << error.what();
  }
  const auto damaged = [&](auto change, const std::string& word) {
    Json j = Json::parse(text_);
    change(j);
    try {
      read(j.dump());
      ADD_FAILURE() << word;
    } catch (const ModelError& error) {
      EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
    }
  };
  damaged([](Json& j) { j.erase("group_benchmarks"); }, "a plan of another version");
  damaged([](Json& j) { j["hosts"] = Json::array(); }, "names no host");
  damaged([](Json& j) { j["hosts"][0]["ns_per_byte"] = -1; }, "ns_per_byte");
  damaged([](Json& j) { j["hosts"][0]["width_multiples"][3] = 0; }, "width_multiples");
  damaged([](Json& j) { j["group_benchmarks"][1]["members"] = 2; }, "not in ascending order");
  damaged([](Json& j) { j["group_benchmarks"][0]["computing"] = 1e9; }, "computing");
  damaged([](Json& j) { j["network"]["mbit_per_s"] = 0; }, "mbit_per_s");
  damaged([](Json& j) { j["model"]["layers"] = 0; }, "layers");
  damaged([](Json& j) { j["draft"]["cost"] = 0; }, "cost");
  damaged([](Json& j) { j["text"]["acceptance4"] = 0.5; }, "acceptance4");
  damaged([](Json& j) { j["text"]["over_confidence"] = -1; }, "over_confidence");
}

}  // namespace
}  // namespace yamata
