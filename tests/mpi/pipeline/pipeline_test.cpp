// Head and stages over the in-process transport: the same bits with any number of ranks, and every error is reported once, with the rank.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <numeric>

#include "mpi/planning/layer_split.hpp"
#include "mpi/planning/layout.hpp"
#include "mpi/planning/memory_plan.hpp"
#include "node/cpu/kernels/kernels.hpp"
#include "node/error.hpp"
#include "src/model/weights.hpp"
#include "tests/mpi/local_cluster.hpp"

namespace yamata::test {
namespace {

class PipelineTest : public testing::Test {
 protected:
  PipelineTest() : model_(own_.model()) {}
  static wire::Record run_of(std::vector<std::int32_t> tokens, std::int32_t position, SequenceRange sequences = {0, 1}) {
    wire::Record run;
    for (std::size_t i = 0; i < tokens.size(); ++i) run.placements.push_back({position + static_cast<std::int32_t>(i), -1, sequences});
    run.logit_rows = {static_cast<std::int32_t>(tokens.size()) - 1};
    run.tokens = std::move(tokens);
    return run;
  }
  static wire::Record operations(std::vector<CacheOperation> operations) {
    wire::Record record;
    record.operations = std::move(operations);
    return record;
  }
  /// `groups`: number of ranks of each stage; empty: one each.
  void start(Head& head, const std::vector<int>& groups = {}) {
    const auto plan = [&](const std::vector<wire::Hello>& hellos) {
      wire::Start start;
      start.pipelines = {{0, std::vector<std::int32_t>(static_cast<std::size_t>(head.ranks())),
                          split_layers(model_.file, model_.h, {}, head.ranks()), 64, 4}};
      std::iota(start.pipelines[0].ranks.begin(), start.pipelines[0].ranks.end(), 0);
      if (!groups.empty()) {
        const ModelPlace place{0, {}, {}, groups};
        start.pipelines[0].layers = place.per_rank(split_layers(model_.file, model_.h, {}, place.stages()));
        for (int r = 0; r < head.ranks(); ++r) start.pipelines[0].shares.push_back(1 + r % 3);
      }
      const ModelFile* const models[] = {&model_};
      plan_memory(models, start, hellos);
      return start;
    };
    head.start(hello_of(0), {42}, plan, own_.factory());
  }

  /// A text, a branch of it in another sequence, and the branch again after the text has grown; returns all logits, in order.
  std::vector<float> play(int ranks, const std::vector<int>& groups = {}) {
    LocalCluster cluster(ranks);
    Head head(cluster.head(), options_);
    start(head, groups);
    std::vector<float> all;
    std::deque<std::uint64_t> out;
    const auto submit = [&](wire::Record run) { out.push_back(head.target().submit(std::move(run))); };
    const auto collect = [&] {
      const std::vector<float> logits = head.wait_result(out.front()).logits;
      out.pop_front();
      all.insert(all.end(), logits.begin(), logits.end());
    };
    submit(run_of({1, 403, 17}, 0));
    submit(run_of({2500, 90}, 3));
    head.target().submit(operations({CacheOperation::copy(0, {1, 3}, {0, 5})}));
    submit(run_of({7, 8}, 5, {1, 2}));
    submit(run_of({9}, 5));
    for (int i = 0; i < 4; ++i) collect();
    head.target().submit(operations({CacheOperation::remove({0, 1}, {4, kUnbounded}), CacheOperation::keep({0, 2}, {})}));
    submit(run_of({33}, 4));
    submit(run_of({44}, 7, {1, 2}));
    collect();
    collect();
    const auto reports = head.stop(0);
    EXPECT_EQ(reports.size(), static_cast<std::size_t>(ranks));
    EXPECT_EQ(reports.back().layers.end, model_.h.layers);
    return all;
  }
  std::string fault_of(int ranks, LocalCluster::Change change) {
    LocalCluster cluster(ranks, std::move(change));
    Head head(cluster.head(), options_);
    try {
      start(head);
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  }

  LocalRank own_;
  const ModelFile& model_;
  ClusterOptions options_;
};

TEST_F(PipelineTest, RunsAndCacheOperations_giveTheSameBitsOnAnyNumberOfRanks) {
  const std::vector<float> alone = play(1);
  ASSERT_EQ(alone.size(), 6 * static_cast<std::size_t>(model_.h.vocabulary));
  for (const int ranks : {2, 3, 5, 8}) EXPECT_EQ(play(ranks), alone) << ranks << " ranks";
}

TEST_F(PipelineTest, RunsAndCacheOperations_giveTheSameBitsInGroups) {
  const std::vector<float> alone = play(1);
  EXPECT_EQ(play(2, {2}), alone);
  EXPECT_EQ(play(4, {1, 3}), alone);
  EXPECT_EQ(play(5, {2, 1, 2}), alone);
}

TEST_F(PipelineTest, BestLogitsOfAGroup_areThoseOfOneRank) {
  const auto result_of = [&](int ranks, const std::vector<int>& groups) {
    LocalCluster cluster(ranks);
    Head head(cluster.head(), options_);
    start(head, groups);
    wire::Record run = run_of({1, 403, 17, 2500}, 0);
    run.logit_rows = {1, 3};
    run.best = 40;
    run.sums = true;
    run.feature_rows = {2};
    run.feature_layers = {1, 6, kOutputFeatures};
    RunResult result = head.wait_result(head.target().submit(std::move(run)));
    head.stop(0);
    return result;
  };
  const RunResult alone = result_of(1, {});
  ASSERT_EQ(alone.tokens.size(), 80u);
  ASSERT_EQ(alone.sums.size(), 2u);
  EXPECT_GT(alone.sums[1], alone.logits[40]);
  for (const std::vector<int>& groups : {std::vector<int>{3}, std::vector<int>{1, 2}}) {
    const RunResult together = result_of(3, groups);
    EXPECT_EQ(together.tokens, alone.tokens);
    EXPECT_EQ(together.logits, alone.logits);
    EXPECT_EQ(together.features, alone.features);
    ASSERT_EQ(together.sums.size(), 2u);
    for (std::size_t row = 0; row < 2; ++row) EXPECT_NEAR(together.sums[row], alone.sums[row], 1e-5);
  }
}

/// Whichever member receives the cancellation first, or if it comes after the end: later runs must be correct.
TEST_F(PipelineTest, CancelledRuns_endForAllRanksOfAGroup) {
  const auto last_of = [&](int ranks, const std::vector<int>& groups, bool cancels, CancelRoute route = CancelRoute::kDirect) {
    LocalCluster cluster(ranks);
    Head head(cluster.head(), options_);
    start(head, groups);
    std::uint64_t last = 0;
    for (std::int32_t i = 0; i < 12; ++i) {
      const std::uint64_t run = head.target().submit(run_of({i + 3, 7 * i + 1}, 0));
      head.target().submit(operations({CacheOperation::remove({0, 1}, {0, kUnbounded})}));
      if (cancels) head.target().cancel(std::vector<std::uint64_t>{run}, route);
      for (std::int32_t k = 0; k < i; ++k) head.step();
    }
    last = head.target().submit(run_of({1, 403, 17, 2500}, 0));
    const std::vector<float> logits = head.wait_result(last).logits;
    head.stop(0);
    return logits;
  };
  const std::vector<float> expected = last_of(1, {}, false);
  EXPECT_EQ(last_of(3, {3}, true), expected);
  EXPECT_EQ(last_of(4, {2, 2}, true), expected);
  EXPECT_EQ(last_of(5, {1, 2, 2}, true, CancelRoute::kBackward), expected);
}

TEST_F(PipelineTest, Features_areTheNormedHiddenStates_onAnyNumberOfRanks) {
  const auto result_of = [&](int ranks) {
    LocalCluster cluster(ranks);
    Head head(cluster.head(), options_);
    start(head);
    wire::Record run = run_of({1, 403, 17, 2500}, 0);
    run.feature_rows = {1, 3};
    run.feature_layers = {kOutputFeatures};
    RunResult result = head.wait_result(head.target().submit(std::move(run)));
    head.stop(0);
    return result;
  };
  const RunResult alone = result_of(1);
  ASSERT_EQ(alone.features.size(), 2 * static_cast<std::size_t>(model_.h.dim));
  EXPECT_EQ(alone.logits.size(), static_cast<std::size_t>(model_.h.vocabulary));
  EXPECT_EQ(result_of(3).features, alone.features);
  EXPECT_FALSE(std::ranges::equal(alone.feature_row(0, 2), alone.feature_row(1, 2)));
  // The last row's logits are the products of the output matrix with its features, which are quantized to 8 bits.
  const StageWeights weights = StageWeights::find(model_.file, model_.h, {0, model_.h.layers});
  const Matrix& output = weights.rest.matrix(TensorRole::kOutput);
  std::vector<float> row(static_cast<std::size_t>(output.cols));
  double squares = 0, differences = 0;
  for (std::size_t token = 0; token < alone.logits.size(); ++token) {
    cpu::dequantize(output.type, output.data + token * output.row_bytes, output.cols, row.data());
    const auto features = alone.feature_row(1, 2);
    const double product = std::inner_product(row.begin(), row.end(), features.begin(), 0.0);
    squares += product * product;
    differences += std::pow(product - static_cast<double>(alone.logits[token]), 2);
  }
  EXPECT_GT(squares, 1);
  EXPECT_LT(differences, 1e-4 * squares);
}

TEST_F(PipelineTest, FeaturesOfSeveralLayers_comeWithTheLogits_theirBytesCounted) {
  std::vector<wire::Report> reports;
  const auto result_of = [&](int ranks, const std::vector<int>& groups, std::vector<std::int32_t> layers) {
    LocalCluster cluster(ranks);
    Head head(cluster.head(), options_);
    start(head, groups);
    wire::Record run = run_of({1, 403, 17, 2500}, 0);
    run.feature_rows = {0, 2, 3};
    run.feature_layers = std::move(layers);
    RunResult result = head.wait_result(head.target().submit(std::move(run)));
    reports = head.stop(0);
    return result;
  };
  const std::vector<std::int32_t> layers{0, 2, 4, 7, kOutputFeatures};
  const RunResult alone = result_of(1, {}, layers);
  const auto dim = static_cast<std::size_t>(model_.h.dim);
  ASSERT_EQ(alone.features.size(), 3 * 5 * dim);
  EXPECT_EQ(reports[0].feature_bytes, 0u) << "nothing is sent";
  for (std::size_t l = 0; l < layers.size(); ++l) {
    const RunResult one = result_of(1, {}, {layers[l]});
    for (std::size_t row = 0; row < 3; ++row)
      EXPECT_TRUE(std::ranges::equal(alone.feature_row(row, 3).subspan(l * dim, dim), one.feature_row(row, 3))) << l << ", row " << row;
  }
  for (const int ranks : {2, 3, 5, 8}) EXPECT_EQ(result_of(ranks, {}, layers).features, alone.features) << ranks << " ranks";
  EXPECT_EQ(reports[0].feature_bytes, 3 * dim * sizeof(float)) << "of layer 0, to the next of eight";
  EXPECT_EQ(reports[7].feature_bytes, 3 * 5 * dim * sizeof(float));
  EXPECT_EQ(result_of(3, {3}, layers).features, alone.features);
  EXPECT_EQ(result_of(5, {2, 1, 2}, layers).features, alone.features);
}

TEST_F(PipelineTest, FullContext_isRefusedBeforeAnythingIsSent) {
  LocalCluster cluster(2);
  Head head(cluster.head(), options_);
  start(head);
  head.target().submit(run_of(std::vector<std::int32_t>(60, 5), 0));
  EXPECT_THROW(head.target().submit(run_of({1, 2, 3, 4, 5}, 60)), UsageError);
  EXPECT_EQ(head.target().outstanding(), 1u);
  head.wait_result(head.target().submit(run_of({1, 2, 3, 4}, 60)));
  head.stop(0);
}

TEST_F(PipelineTest, OtherFileOnARank_isNamed) {
  const std::string text = fault_of(4, [](int rank, wire::Hello& hello) { hello.fingerprints[0] += rank == 2; });
  EXPECT_EQ(text.find("rank 2 (host2) has another model file"), 0u) << text;
}

TEST_F(PipelineTest, OtherVersionOnARank_isNamed) {
  const std::string text = fault_of(3, [](int rank, wire::Hello& hello) {
    if (rank == 1) hello.version = "older";
  });
  EXPECT_EQ(text.find("rank 1 (host1) runs another version"), 0u) << text;
}

TEST_F(PipelineTest, FaultOnARank_reachesTheHeadWithItsExitCode) {
  LocalCluster cluster(3, [](int rank, wire::Hello&) {
    if (rank == 2) throw ModelError("cannot open m.gguf: No such file or directory");
  });
  Head head(cluster.head(), options_);
  try {
    start(head);
    FAIL() << "started without rank 2";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::kModel);
    EXPECT_NE(std::string(e.what()).find("rank 2"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("cannot open m.gguf"), std::string::npos) << e.what();
  }
}

TEST_F(PipelineTest, RankWithTooLittleMemory_isRefusedByName) {
  const std::string text = fault_of(2, [](int rank, wire::Hello& hello) {
    if (rank == 1) hello.available_bytes = 1000;
  });
  EXPECT_NE(text.find("rank 1 (host1)"), std::string::npos) << text;
}

TEST_F(PipelineTest, Interruption_endsAWait) {
  std::atomic<bool> interrupted{false};
  options_.interrupted = &interrupted;
  LocalCluster cluster(2);
  Head head(cluster.head(), options_);
  start(head);
  const std::uint64_t run = head.target().submit(run_of({1, 2, 3}, 0));
  interrupted = true;
  EXPECT_THROW(head.wait_result(run), Interrupted);
  EXPECT_EQ(head.stop(130).size(), 2u);
}

TEST_F(PipelineTest, CancelledRuns_giveNoLogitsAndLeaveTheCacheInStep) {
  const auto play_with_cancel = [&](bool cancel, CancelRoute route = CancelRoute::kDirect) {
    LocalCluster cluster(3);
    Head head(cluster.head(), options_);
    start(head);
    head.target().submit(run_of({1, 403, 17}, 0));
    const std::uint64_t dead[] = {head.target().submit(run_of({5, 6, 7, 8}, 3, {1, 2}))};
    if (cancel) head.target().cancel(dead, route);
    head.target().submit(operations({CacheOperation::remove({1, 2}, {})}));
    const std::uint64_t last = head.target().submit(run_of({2500}, 3));
    EXPECT_TRUE(head.wait_result(dead[0]).logits.empty() || !cancel);
    const std::vector<float> logits = head.wait_result(last).logits;
    head.stop(0);
    return logits;
  };
  EXPECT_EQ(play_with_cancel(true), play_with_cancel(false));
  EXPECT_EQ(play_with_cancel(true, CancelRoute::kBackward), play_with_cancel(false));
}

TEST_F(PipelineTest, LoadingProgress_endsWhole) {
  double last = 0;
  options_.on_loading = [&](double share) {
    EXPECT_GE(share, last);
    last = share;
  };
  LocalCluster cluster(3);
  Head head(cluster.head(), options_);
  start(head);
  EXPECT_EQ(last, 1.0);
  head.stop(0);
}

}  // namespace
}  // namespace yamata::test
