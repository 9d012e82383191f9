// The choice among simulated layouts: the fastest, unless a simpler one is as good.
#include "launch/program/planning/layout_choice.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/paths.hpp"

namespace yamata {
namespace {

class LayoutChoiceTest : public testing::Test {
 protected:
  const ModelFile target_ = ModelFile::open(test::source_path("/models/tales-target-q8_0.gguf"));
  const ModelFile draft_ = ModelFile::open(test::source_path("/models/tales-draft-q8_0.gguf"));

  /// 100 ns per byte: for such a small model, the time that a slow machine needs for a large one.
  static std::vector<wire::Hello> hellos(const std::vector<double>& ns_per_byte) {
    std::vector<wire::Hello> hellos;
    for (const double ns : ns_per_byte) {
      wire::Hello hello;
      hello.host = "h" + std::to_string(hellos.size());
      hello.fingerprints = {42, 43};
      hello.available_bytes = 1 << 30;
      hello.threads = 1;
      hello.measured = {ns, {1.1, 1.3, 1.8}};
      hellos.push_back(hello);
    }
    return hellos;
  }
  static std::vector<Link> links(std::size_t ranks, double latency_s) { return std::vector<Link>(ranks, {latency_s, 5e-5, 125e6}); }
  PlannedJob job(bool drafts) const {
    PlannedJob job{.target = target_, .draft = drafts ? &draft_ : nullptr};
    job.context = 256;
    job.generate = 48;
    return job;
  }
  LayoutChoice choice(const PlannedJob& job, const std::vector<double>& ns_per_byte, double latency_s) {
    const auto chosen = choose_layout(job, planned_hosts(hellos(ns_per_byte), links(ns_per_byte.size(), latency_s)));
    EXPECT_TRUE(chosen);
    return chosen.value_or(LayoutChoice{});
  }
};

TEST_F(LayoutChoiceTest, NearMachines_shareLayers) {
  const LayoutChoice chosen = choice(job(false), {100, 100}, 1e-5);
  EXPECT_EQ(chosen.candidate.layout[0].groups, std::vector<int>{2});
  EXPECT_EQ(chosen.why.find("h0+h1, iterative: "), 0u) << chosen.why;
  const auto plan = nlohmann::json::parse(chosen.plan_json);
  EXPECT_EQ(plan["layouts"][plan["chosen"].get<std::size_t>()]["hosts"], "h0+h1");
  EXPECT_NE(chosen.why.find("of h0 alone, iterative"), std::string::npos) << chosen.why;
}

TEST_F(LayoutChoiceTest, MachinesThatAddNothing_stayOut) {
  const LayoutChoice chosen = choice(job(false), {100, 100, 100}, 0.1);
  EXPECT_EQ(chosen.candidate.layout.size(), 1u);
  EXPECT_EQ(chosen.candidate.layout[0].ranks, std::vector<int>{0});
  EXPECT_EQ(chosen.why.find("h0 alone, iterative: "), 0u) << chosen.why;
  const auto plan = nlohmann::json::parse(chosen.plan_json);
  EXPECT_EQ(plan["layouts"][plan["chosen"].get<std::size_t>()]["hosts"], "h0");
  EXPECT_NE(chosen.why.find("; h1, h2 are not used"), std::string::npos) << chosen.why;
}

TEST_F(LayoutChoiceTest, GainWithinTheForecastsError_isNotWorthMoreMachines) {
  const PlannedJob iterative = job(false);
  const auto hosts = [&](double latency_s) { return planned_hosts(hellos({100, 100}), links(2, latency_s)); };
  const auto speeds = [&](double latency_s) {
    double alone = 0, together = 0;
    for (const Forecast& f : plan_layouts(iterative, hosts(latency_s), {}, 8)) {
      double& best = f.candidate.hosts() == 1 ? alone : together;
      best = std::max(best, f.tokens_per_s);
    }
    return together / alone;
  };
  double near = 1e-5, far = 1e-1;  // the latency at which both together are 4 % faster
  for (int i = 0; i < 40; ++i) (speeds(std::sqrt(near * far)) > 1.04 ? near : far) = std::sqrt(near * far);
  EXPECT_GT(speeds(near), 1.02);
  EXPECT_EQ(choose_layout(iterative, hosts(near))->candidate.hosts(), 1);
}

TEST_F(LayoutChoiceTest, LayoutThatWasSlowerThanExpected_givesWayToAnother) {
  PlannedJob learnt = job(false);
  const LayoutChoice before = choice(learnt, {100, 100}, 1e-5);
  learnt.correction = [](const LayoutCandidate& layout) { return layout.hosts() > 1 ? 0.25 : 0.9; };
  const LayoutChoice after = choice(learnt, {100, 100}, 1e-5);
  EXPECT_EQ(before.why.find("h0+h1, iterative: "), 0u) << before.why;
  EXPECT_EQ(after.why.find("h0 alone, iterative: "), 0u) << after.why;
  EXPECT_LT(after.simulated_tokens_per_s, before.simulated_tokens_per_s);
  const auto plan = nlohmann::json::parse(after.plan_json);
  EXPECT_EQ(plan["layouts"][0]["correction"], 0.9);
  EXPECT_NEAR(plan["layouts"][0]["decode_tokens_per_s"], 0.9 * after.simulated_tokens_per_s, 1e-6);
  EXPECT_EQ(nlohmann::json::parse(before.plan_json)["layouts"][0]["correction"], 1);
}

TEST_F(LayoutChoiceTest, WhatTheFlagsSay_isNotChosenAnew) {
  PlannedJob asked = job(true);
  for (const Strategy strategy : {Strategy::kSpeculative, Strategy::kPipeInfer}) {
    asked.strategy = strategy;
    EXPECT_EQ(choice(asked, {100, 100, 100}, 1e-4).candidate.strategy, strategy);
  }
  asked.strategy.reset();
  asked.draft_on_head = true;
  const LayoutCandidate on_head = choice(asked, {100, 100, 100}, 1e-4).candidate;
  EXPECT_TRUE(on_head.layout.size() == 1 || on_head.draft_on_head());
  PlannedJob lookup = job(false);
  lookup.strategy = Strategy::kPipeInfer;
  EXPECT_EQ(choice(lookup, {100, 100}, 1e-5).candidate.strategy, Strategy::kPipeInfer);
}

TEST_F(LayoutChoiceTest, TextThatGuessesForItself_isSaidToSpeculate) {
  PlannedJob texts = job(false);
  texts.guesses_text = true;
  const LayoutChoice group = choice(texts, {100, 100}, 1e-5), pipeline = choice(texts, {1000, 100}, 1e-1);
  EXPECT_EQ(group.why.find("h0+h1, speculative: "), 0u) << group.why;
  EXPECT_EQ(pipeline.why.find("h0,h1, pipeinfer: "), 0u) << pipeline.why;
  EXPECT_EQ(pipeline.candidate.strategy, Strategy::kPipeInfer);
  EXPECT_EQ(group.why.find("iterative"), std::string::npos) << group.why;
}

TEST_F(LayoutChoiceTest, ForSeveralTexts_theirSpeedCounts) {
  PlannedJob texts = job(false);
  const LayoutChoice one = choice(texts, {100, 100}, 0.02);
  texts.requests = 8;
  const LayoutChoice many = choice(texts, {100, 100}, 0.02);
  EXPECT_EQ(one.why.find("h0 alone, iterative: "), 0u) << one.why;
  EXPECT_EQ(one.why.find("texts"), std::string::npos) << one.why;
  EXPECT_EQ(many.why.find("h0,h1, iterative: "), 0u) << many.why;
  EXPECT_NE(many.why.find(" tokens/s of 8 texts expected, "), std::string::npos) << many.why;
  EXPECT_EQ(nlohmann::json::parse(many.plan_json)["text"]["requests"], 8);
}

TEST_F(LayoutChoiceTest, SlowHead_leavesTheLayersToTheOthers) {
  const LayoutChoice chosen = choice(job(false), {1000, 100}, 1e-1);
  EXPECT_EQ(chosen.candidate.hosts(), 2);
  EXPECT_GT(chosen.candidate.stages.at(1).count(), 3 * chosen.candidate.stages.at(0).count());
}

TEST_F(LayoutChoiceTest, RankThatIsNotMeasuredOrLacksAFile_leavesTheChoiceToTheFlags) {
  auto some = hellos({100, 100});
  EXPECT_EQ(planned_hosts(some, links(2, 1e-4)).size(), 2u);
  some[1].measured.ns_per_byte = 0;
  EXPECT_TRUE(planned_hosts(some, links(2, 1e-4)).empty());
  some = hellos({100, 100});
  some[1].fingerprints[1] = 0;
  EXPECT_TRUE(planned_hosts(some, links(2, 1e-4)).empty());
}

TEST_F(LayoutChoiceTest, MemoryOfADeviceWithWholeLayers_counts) {
  auto some = hellos({100, 100});
  some[1].device = "cpu+cuda:0", some[1].device_layers = 4, some[1].device_bytes = 1u << 30;
  const auto hosts = planned_hosts(some, links(2, 1e-4), 1 << 20);
  EXPECT_EQ(hosts[0].free_bytes, 1u << 30);
  EXPECT_EQ(hosts[1].free_bytes, (1u << 30) + (4u << 20));
}

TEST_F(LayoutChoiceTest, Hosts_areAsMeasured) {
  const auto hosts = planned_hosts(hellos({100, 105, 300}), links(3, 1e-3));
  EXPECT_DOUBLE_EQ(hosts[0].ns_per_byte, hosts[1].ns_per_byte) << "5 % are chance";
  EXPECT_NEAR(hosts[0].ns_per_byte, 102.5, 1e-6);
  EXPECT_NEAR(hosts[2].ns_per_byte, 300, 1e-6);
  EXPECT_DOUBLE_EQ(hosts[1].width(4), 1.3);
  EXPECT_FALSE(hosts[0].link);
  EXPECT_EQ(hosts[1].link->latency, 1'000'000 - 2 * simulation::NetworkOptions{}.message) << "without the work of the messages";
  EXPECT_EQ(hosts[1].free_bytes, 1u << 30);
}

}  // namespace
}  // namespace yamata
