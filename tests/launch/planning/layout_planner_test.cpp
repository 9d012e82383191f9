// Layouts of simulated machines.
#include "launch/program/planning/layout_planner.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "launch/program/planning/group_benchmarks.hpp"
#include "mpi/cluster/head.hpp"
#include "mpi/planning/layer_split.hpp"
#include "src/model/shard.hpp"
#include "tests/paths.hpp"

namespace yamata {
namespace {

constexpr std::uint64_t kMib = 1 << 20;

class Planner : public testing::Test {
 protected:
  const ModelFile target_ = ModelFile::open(test::source_path("/models/tales-target-q8_0.gguf"));
  const ModelFile draft_ = ModelFile::open(test::source_path("/models/tales-draft-q8_0.gguf"));

  /// Machines with these speeds: for such a small model, the time that a slow machine needs for a large one.
  static std::vector<PlannedHost> hosts(const std::vector<double>& ns_per_byte, std::uint64_t free_bytes = 100 * kMib) {
    std::vector<PlannedHost> hosts;
    for (const double ns : ns_per_byte)
      hosts.push_back({.name = "h" + std::to_string(hosts.size()), .ns_per_byte = ns, .free_bytes = free_bytes});
    return hosts;
  }
  PlannedJob job(bool drafts = true) const {
    PlannedJob job{.target = target_, .draft = drafts ? &draft_ : nullptr};
    job.context = 256;
    return job;
  }
  static simulation::NetworkOptions network(double latency_ms) {
    return {static_cast<simulation::Nanoseconds>(latency_ms * 1e6), 125e6, 50'000};
  }
  static std::uint64_t most(const Forecast& f) { return *std::ranges::max_element(f.rank_bytes); }
};

TEST_F(Planner, Interrupt_endsThePlanning) {
  PlannedJob interrupted_job = job();
  const std::atomic<bool> interrupted{true};
  interrupted_job.interrupted = &interrupted;
  EXPECT_THROW(plan_layouts(interrupted_job, hosts({1, 1}), network(0.1), 5), Interrupted);
}

TEST_F(Planner, EveryCandidate_isLedByTheFirstHostAndIsWhatItsTextSays) {
  const auto all = layout_candidates(target_, hosts({3, 1, 1.5, 2, 7}), true, 0);
  std::set<std::string> texts;
  for (const LayoutCandidate& c : all) {
    EXPECT_EQ(c.layout.front().ranks.front(), 0);
    const std::string text = to_text(c.layout);
    EXPECT_TRUE(
        texts.insert(text + strategy_name(c.strategy) + std::to_string(c.layout.back().ranks.front()) + std::to_string(c.hosts())).second)
        << text;
    const bool own = c.layout.size() > 1 && !c.draft_on_head();
    const Layout parsed = make_layout(text, c.hosts(), c.layout.size() > 1 ? 1 : 0, c.draft_on_head());
    EXPECT_EQ(parsed.front().stages(), static_cast<int>(c.stages.size())) << text;
    EXPECT_EQ(parsed.back().ranks.front(), own ? c.hosts() - 1 : 0) << text;
    const auto stages = split_layers(target_.file, target_.h, parsed.front().stage_shares(), parsed.front().stages());
    for (std::size_t s = 0; s < stages.size(); ++s) EXPECT_EQ(stages[s].end, c.stages[s].end) << text;
  }
  const auto has = [&](const auto& what) { return std::ranges::any_of(all, what); };
  EXPECT_TRUE(has([](const LayoutCandidate& c) { return c.hosts() == 1 && c.layout.size() == 1; })) << "one alone";
  EXPECT_TRUE(has([](const LayoutCandidate& c) { return c.stages.size() == 5; })) << "a pipeline of all";
  EXPECT_TRUE(has([](const LayoutCandidate& c) { return c.layout[0].groups == std::vector<int>{2, 2}; })) << "a pipeline of groups";
  const auto behind = [&](const LayoutCandidate& c) { return c.stages.size() == 2 && c.stages[0].count() == 1; };
  EXPECT_TRUE(has([&](const LayoutCandidate& c) {
    return behind(c) && c.layout[0].ranks == std::vector<int>{0, 1};
  })) << "the fastest has most";
  EXPECT_TRUE(has([&](const LayoutCandidate& c) {
    return behind(c) && c.layout[0].groups == std::vector<int>{1, 3};
  })) << "the faster ones do";
  for (const int drafter : {1, 4}) {
    EXPECT_TRUE(has([&](const LayoutCandidate& c) { return c.layout.size() > 1 && c.layout[1].ranks == std::vector<int>{drafter}; }))
        << drafter;
  }
}

TEST_F(Planner, MembersOfAGroup_shareByTheirSpeed) {
  const auto all = layout_candidates(target_, hosts({1, 2}), false, 0);
  const auto group = std::ranges::find_if(all, [](const LayoutCandidate& c) { return !c.layout[0].groups.empty(); });
  ASSERT_NE(group, all.end());
  EXPECT_NEAR(group->layout[0].shares[0], 2 * group->layout[0].shares[1], 0.03);
}

TEST_F(Planner, NearMachines_shareLayersAndFarOnesDoNot) {
  const auto near = plan_layouts(job(false), hosts({100, 100}), network(0.01), 5);
  EXPECT_EQ(near.front().candidate.layout[0].groups, std::vector<int>{2});
  EXPECT_GT(near.front().exchange_share, 0);
  const auto far = plan_layouts(job(false), hosts({100, 100}), network(100), 5);
  EXPECT_EQ(far.front().candidate.hosts(), 1) << "without guesses a pipeline gains nothing";
  EXPECT_EQ(far.front().exchange_share, 0);
  for (const auto& forecasts : {near, far}) {
    EXPECT_TRUE(std::ranges::is_sorted(forecasts, std::greater<>(), &Forecast::tokens_per_s));
    EXPECT_TRUE(std::ranges::any_of(forecasts, [](const Forecast& f) { return f.candidate.hosts() == 1; }));
  }
}

TEST_F(Planner, EveryHost_hasItsOwnTimesOfWiderRuns) {
  const auto in_turn = [&](double second) {
    std::vector<PlannedHost> machines = hosts({1000, second});
    machines[0].width = simulation::WidthCost({1, 2});
    machines[1].width = simulation::WidthCost({1, 1});
    const auto all = plan_layouts(job(false), machines, network(0.1), 9);
    return std::ranges::find_if(all, [](const Forecast& f) { return f.candidate.stages.size() == 2; })->ttft_s;
  };
  EXPECT_NEAR(in_turn(1010) / in_turn(1000), 1, 0.05) << "a slower machine makes no other one faster";
}

TEST_F(Planner, BestOfOneHost_isShownEvenWhereOnlyTwoRowsAre) {
  const auto two = plan_layouts(job(), hosts({100, 100, 100, 100}), network(0.01), 2);
  ASSERT_EQ(two.size(), 2u);
  EXPECT_EQ(two.back().candidate.hosts(), 1);
  EXPECT_GT(two.front().candidate.hosts(), 1);
}

TEST_F(Planner, AModelTooLargeForOneHost_isSharedOut) {
  const auto wide = plan_layouts(job(false), hosts({100, 100}), network(100), 9);
  const auto alone = std::ranges::find_if(wide, [](const Forecast& f) { return f.candidate.hosts() == 1; });
  ASSERT_NE(alone, wide.end());
  const std::uint64_t half = most(*alone) * 3 / 4;
  for (const Forecast& f : plan_layouts(job(false), hosts({100, 100}, half), network(100), 9)) {
    EXPECT_TRUE(f.fits);
    EXPECT_EQ(f.candidate.hosts(), 2);
    EXPECT_LE(most(f), half);
  }
  std::uint64_t least = half;
  for (const Forecast& f : wide) least = std::min(least, most(f));
  const auto tight = plan_layouts(job(false), hosts({100, 100}, least - 1), network(100), 9);
  ASSERT_FALSE(tight.empty()) << "weights and cache have room";
  for (const Forecast& f : tight) EXPECT_FALSE(f.fits) << "but not the buffers beside them";
  PlannedJob long_text = job(false);
  long_text.context = 1 << 20;
  EXPECT_TRUE(plan_layouts(long_text, hosts({100, 100}), network(0.1), 9).empty()) << "no layout has room for such a cache";
}

TEST_F(Planner, WorthlessDraft_isNotAsked) {
  PlannedJob wrong = job();
  wrong.acceptance = wrong.acceptance4 = 0;
  EXPECT_EQ(plan_layouts(wrong, hosts({100}), network(0.1), 3).front().candidate.strategy, Strategy::kIterative);
  PlannedJob right = job();
  right.acceptance = right.acceptance4 = 0.9;
  EXPECT_EQ(plan_layouts(right, hosts({100}), network(0.1), 3).front().candidate.strategy, Strategy::kSpeculative);
}

TEST_F(Planner, BenchmarkedGroups_countAsMeasured) {
  const auto machines = hosts({1000, 1000, 1000});
  PlannedJob plain = job(false);
  const auto pair = [&](const PlannedJob& job) {
    for (const Forecast& f : plan_layouts(job, machines, network(0.1), 100))
      if (f.candidate.layout[0].groups == std::vector<int>{2}) return f;
    throw std::logic_error("no pair");
  };
  const Forecast as_numbers_say = pair(plain);
  const double token_s = 1 / as_numbers_say.tokens_per_s, computing_s = token_s * (1 - as_numbers_say.exchange_share);
  const auto expected_s = [&](std::vector<int> ranks) {
    const std::vector<GroupTime> once{{.ranks = std::move(ranks), .computing_s = 1}};
    return 1 / group_costs(target_, machines, once, {}).front().computing;
  };
  PlannedJob measured = job(false);
  const std::vector<GroupTime> took{{.ranks = {0, 1, 2}, .computing_s = 1.5 * expected_s({0, 1, 2}), .exchange_s = 2e-3},
                                    {.ranks = {0, 1}, .computing_s = 1.5 * expected_s({0, 1}), .exchange_s = 2e-3}};
  measured.group_costs = group_costs(target_, machines, took, {});
  EXPECT_EQ(measured.group_costs[0].members, 2) << "ascending";
  EXPECT_NEAR(measured.group_costs[0].computing, 1.5, 1e-9);
  EXPECT_EQ(measured.group_costs[0].exchange, 2'000'000);
  const double slower_s = 1 / pair(measured).tokens_per_s;
  const double exchanges_s = 2e-3 * kExchangesPerLayer * static_cast<double>(target_.h.layers);
  EXPECT_NEAR(slower_s, 1.5 * computing_s + exchanges_s, 0.03 * slower_s);
}

TEST_F(Planner, LongTexts_areOnlySimulatedInPart) {
  const auto machines = hosts({500, 800});
  const auto candidates = layout_candidates(target_, machines, false, 0);
  const auto pipeline = std::ranges::find_if(candidates, [](const LayoutCandidate& c) { return c.stages.size() == 2; });
  ASSERT_NE(pipeline, candidates.end());
  const auto predicted = [&](int prompt, int generate) {
    PlannedJob text = job(false);
    text.prompt = prompt;
    return forecast(*pipeline, text, machines, network(0.1), generate, 1);
  };
  const Forecast whole = predicted(256, 256), longer = predicted(1024, 512);
  EXPECT_EQ(longer.tokens_per_s, predicted(1024, 256).tokens_per_s);
  EXPECT_NEAR(longer.tokens_per_s, whole.tokens_per_s, 0.01 * whole.tokens_per_s);
  const Forecast half = predicted(128, 16);
  EXPECT_NEAR(longer.ttft_s, whole.ttft_s + 6 * (whole.ttft_s - half.ttft_s), 1e-3 * longer.ttft_s);
}

/// Machines on which a row more takes half as long again.
std::vector<PlannedHost> with_expensive_rows(std::vector<PlannedHost> hosts) {
  for (PlannedHost& host : hosts) host.width = simulation::WidthCost({0.5});
  return hosts;
}

TEST_F(Planner, SeveralTexts_fillAPipelineWithoutADraft_whereOneTextHasDrafts) {
  const auto machines = with_expensive_rows(hosts({30, 30, 30, 30}));
  const auto best = [&](int requests) {
    PlannedJob texts = job();
    texts.requests = requests;
    return plan_layouts(texts, machines, network(20), 8).front();
  };
  const Forecast one = best(1), many = best(16);
  EXPECT_EQ(one.candidate.layout.size(), 2u) << "a draft";
  EXPECT_EQ(many.candidate.layout.size(), 1u);
  EXPECT_EQ(many.candidate.stages.size(), 4u);
  EXPECT_GT(many.tokens_per_s, 3 * one.tokens_per_s);
}

TEST_F(Planner, SpeedOfSeveralTexts_isThatOfTheSlowestStagesRuns) {
  PlannedJob texts = job(false);
  texts.requests = 16;
  const auto machines = with_expensive_rows(hosts({300, 300}));
  const auto candidates = layout_candidates(target_, machines, false, 0);
  const auto pipeline = std::ranges::find_if(candidates, [](const LayoutCandidate& c) { return c.stages.size() == 2; });
  const auto costs = layer_costs(target_.file, target_.h);
  double slowest = 0;
  for (const LayerRange stage : pipeline->stages)
    slowest = std::max(slowest, 300e-9 * std::accumulate(costs.begin() + stage.begin, costs.begin() + stage.end, 0.0));
  const double run_s = slowest * (1 + 0.5 * 7);  // of half of the texts
  for (const int prompt : {1, 200}) {
    texts.prompt = prompt;
    EXPECT_NEAR(forecast(*pipeline, texts, machines, network(0.1), 64, 1).tokens_per_s, 8 / run_s, 0.1 * 8 / run_s) << prompt;
  }
}

TEST_F(Planner, FirstTokensOfSeveralTexts_waitForTheirPrompts) {
  const auto machines = hosts({300});
  const auto alone = layout_candidates(target_, machines, false, 0).front();
  const auto ttft_s = [&](int requests, int prompt) {
    PlannedJob texts = job(false);
    texts.requests = requests;
    texts.prompt = prompt;
    return forecast(alone, texts, machines, network(0.1), 64, 1).ttft_s;
  };
  EXPECT_GT(ttft_s(8, 64), 2 * ttft_s(1, 64));
  EXPECT_NEAR(ttft_s(8, 512), 2 * ttft_s(8, 256), 0.1 * ttft_s(8, 512));
}

TEST_F(Planner, DraftOnTheFirstMachine_isForATextAlone) {
  PlannedJob texts = job();
  texts.acceptance = texts.acceptance4 = 0.95;
  const auto on_head = [&](int requests) {
    texts.requests = requests;
    return std::ranges::count_if(plan_layouts(texts, hosts({100, 100}), network(0.1), 100),
                                 [](const Forecast& f) { return f.candidate.draft_on_head(); });
  };
  EXPECT_GT(on_head(1), 0);
  EXPECT_EQ(on_head(2), 0);
}

TEST_F(Planner, SeveralTexts_haveAsManyCellsAsTheEngineWouldTake) {
  PlannedJob texts = job(false);
  texts.prompt = 32, texts.generate = 96;
  const auto planned = [&](int requests, std::uint64_t free_bytes) {
    texts.requests = requests;
    return plan_layouts(texts, hosts({100}, free_bytes), network(0.1), 5).front();
  };
  const std::uint64_t one = most(planned(1, 100 * kMib)), eight = most(planned(8, 100 * kMib));
  const std::uint64_t context = (eight - one) / 7;
  EXPECT_EQ(context, rank_bytes(target_, {0, target_.h.layers}, Shard(target_.h), {}, texts.batch, 1).cache(256));
  const Forecast half = planned(8, eight - 1);
  EXPECT_TRUE(half.fits);
  EXPECT_EQ(most(half), one + 3 * context) << "half of the cells: each text may still have its 128";
  const Forecast too_few = planned(8, most(half) - 1);
  EXPECT_FALSE(too_few.fits);
  texts.generate = 32;
  EXPECT_EQ(most(planned(8, most(half) - 1)), one + context) << "a quarter";
}

}  // namespace
}  // namespace yamata
