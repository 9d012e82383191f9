// A draft's savings, from job to job: when they expire, and for which jobs they count.
#include "launch/program/planning/kept_savings.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "tests/launch/planning/times.hpp"
#include "tests/temporary_folder.hpp"

namespace yamata {
namespace {

class KeptSavingsTest : public testing::Test {
 protected:
  KeptSavings at(std::int64_t now_s) { return {folder_, {.host = "h", .isa = "avx2"}, now_s}; }
  /// A job at this time whose draft takes so many steps; returns the steps of earlier jobs.
  double job(std::int64_t now_s, int steps) {
    const KeptSavings kept = at(now_s);
    DraftSums all = kept.earlier() ? kept.earlier()->sums : DraftSums{};
    for (int i = 0; i < steps; ++i) all.add({.tokens = 2, .own = 1, .seconds = 3, .cost_s = 1, .token_s = 2}, 1);
    kept.keep(all, now_s);
    return kept.earlier() ? kept.earlier()->sums.steps : 0;
  }

  test::TemporaryFolder parent_;
  const std::string folder_ = parent_ / "kept";
};

TEST_F(KeptSavingsTest, LaterJobs_addToThem) {
  EXPECT_EQ(job(kNow, 10), 0);
  EXPECT_EQ(job(kNow + kHour, 5), 10);
  EXPECT_EQ(job(kNow + 2 * kHour, 1), 15);
}

TEST_F(KeptSavingsTest, JobsWithoutASingleStep_doNotProlongThem) {
  job(kNow, 0);
  EXPECT_FALSE(at(kNow).earlier());
  job(kNow, 10);
  for (std::int64_t hour = 1; hour < 24; ++hour) EXPECT_EQ(job(kNow + hour * kHour, 0), 10);
  EXPECT_FALSE(at(kNow + kDay).earlier());
}

TEST_F(KeptSavingsTest, JobThatAddedNothing_leavesWhatAnotherHasWritten) {
  job(kNow, 10);
  const KeptSavings idle = at(kNow);
  job(kNow, 7);
  idle.keep(idle.earlier()->sums, kNow);
  EXPECT_EQ(at(kNow).earlier()->sums.steps, 17);
}

TEST_F(KeptSavingsTest, JobsThatEachAddALittle_doNotProlongOldResults) {
  job(kNow, 10);
  for (std::int64_t hour = 1; hour < 24; ++hour) EXPECT_EQ(job(kNow + hour * kHour, 1), 9 + hour);
  EXPECT_EQ(job(kNow + kDay, 3), 0);
  EXPECT_EQ(job(kNow + kDay + 23 * kHour, 0), 3);
  EXPECT_FALSE(at(kNow + 2 * kDay).earlier());
}

/// The conditions of a job whose target is on ranks 0 and 1 and whose draft is on rank 0.
struct Conditions {
  Conditions() { decode.strategy = Strategy::kSpeculative; }
  DecodeOptions decode;
  SamplingParams sampling;
  Layout layout{{.model = 0, .ranks = {0, 1}}, {.model = 1, .ranks = {0}}};
  std::vector<std::uint64_t> fingerprints{11, 12};

  std::uint64_t number() const { return fingerprint({decode, sampling, layout, fingerprints}); }
};

TEST(SavingsConditionsTest, SavingsCountOnlyForJobsInWhichADraftSavesAsMuch) {
  const std::vector<std::pair<const char*, void (*)(Conditions&)>> others{
      {"strategy", [](Conditions& c) { c.decode.strategy = Strategy::kPipeInfer; }},
      {"--policy", [](Conditions& c) { c.decode.policy.name = "chain"; }},
      {"--draft", [](Conditions& c) { c.decode.policy.draft = 4; }},
      {"--tree",
       [](Conditions& c) {
         c.decode.policy.tree = StaticTree{{{}, {0, 0, 0}}};
       }},
      {"another tree",
       [](Conditions& c) {
         c.decode.policy.tree = StaticTree{{{}, {0, 0, 0}, {0, 0, 1}}};
       }},
      {"suffixes", [](Conditions& c) { c.decode.lookup = true; }},
      {"--acceptance typical", [](Conditions& c) { c.decode.typical = TypicalAcceptance{}; }},
      {"temperature", [](Conditions& c) { c.sampling.temperature = 0.8f; }},
      {"a higher one", [](Conditions& c) { c.sampling.temperature = 1.2f; }},
      {"--top-k", [](Conditions& c) { c.sampling.temperature = 0.8f, c.sampling.top_k = 2; }},
      {"--repeat-penalty", [](Conditions& c) { c.sampling.repeat_penalty = 1.1f; }},
      {"another rank drafts", [](Conditions& c) { c.layout[0].ranks = {0}, c.layout[1].ranks = {1}; }},
      {"a group", [](Conditions& c) { c.layout[0].groups = {2}; }},
      {"another draft", [](Conditions& c) { c.fingerprints[1] = 13; }},
      {"one more draft", [](Conditions& c) { c.layout.push_back({.model = 2, .ranks = {0}}), c.fingerprints.push_back(13); }}};
  std::vector<std::uint64_t> seen{Conditions{}.number()};
  for (const auto& [what, change] : others) {
    Conditions c;
    change(c);
    EXPECT_FALSE(std::ranges::count(seen, c.number()) > 0) << what;
    seen.push_back(c.number());
  }
}

TEST(SavingsConditionsTest, SavingsCountForOtherTexts) {
  Conditions c;
  c.sampling.seed = 7;
  c.sampling.top_k = 1;  // is not read in greedy sampling
  c.decode.request = 9;
  c.decode.generate = 5;
  c.decode.context = 77;
  EXPECT_EQ(c.number(), Conditions{}.number());
}

}  // namespace
}  // namespace yamata
