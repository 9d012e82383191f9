// The final line about a split that slows the job down.
#include "launch/program/planning/split_advice.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "launch/program/output/report.hpp"
#include "tests/paths.hpp"

namespace yamata {
namespace {

class SplitAdviceTest : public testing::Test {
 protected:
  SplitAdviceTest() : model_(ModelFile::open(test::source_path("/models/tales-target-q8_0.gguf"))) {}  // 8 layers

  /// Reports of stages with these layers, which took `slowness` times the time that their bytes predict.
  std::vector<wire::Report> reports(const std::vector<LayerRange>& split, const std::vector<double>& slowness) {
    const auto costs = layer_costs(model_.file, model_.h);
    std::vector<wire::Report> reports;
    for (std::size_t s = 0; s < split.size(); ++s) {
      wire::Report report;
      report.host = std::string(1, static_cast<char>('a' + s));
      report.layers = split[s];
      report.runs = 100;
      for (std::int64_t i = split[s].begin; i < split[s].end; ++i)
        report.busy_s += slowness[s] * costs[static_cast<std::size_t>(i)] / costs.front();
      reports.push_back(report);
    }
    return reports;
  }
  std::string advice(const std::vector<wire::Report>& reports, const Layout& layout) {
    return split_advice(model_, layout, reports, std::vector<std::uint64_t>(reports.size(), capacity_bytes_), 0);
  }

  const std::vector<LayerRange> kEven{{0, 3}, {3, 6}, {6, 8}};
  const Layout kThree{{0, {0, 1, 2}, {}}};
  std::uint64_t capacity_bytes_ = std::numeric_limits<std::uint64_t>::max();
  ModelFile model_;
};

TEST_F(SplitAdviceTest, SlowStage_isNamedWithTheSplitThatHelps) {
  const std::string line = advice(reports(kEven, {1, 5, 1}), kThree);
  EXPECT_EQ(line, "rank 1 (b) took 5.0 times as long for its share as the other stages; faster would be --layer-split 4,1,3\n");
  Generation generation;
  generation.per_rank = reports(kEven, {1, 5, 1});
  generation.split_advice = line;
  const std::string table = to_table(generation);
  EXPECT_EQ(table.substr(table.size() - line.size()), line);
}

TEST_F(SplitAdviceTest, DraftsWithRanks_keepTheirShares) {
  auto all = reports(kEven, {1, 5, 1});
  all.resize(6);
  const std::string line = advice(all, {{0, {0, 1, 2}, {}}, {1, {3}, {}}, {2, {4, 5}, {0.5, 0.5}}});
  EXPECT_NE(line.find("--layer-split 4,1,3/1/0.5,0.5\n"), std::string::npos) << line;
  all.resize(3);
  EXPECT_NE(advice(all, {{0, {0, 1, 2}, {}}, {1, {0}, {}}}).find("--layer-split 4,1,3\n"), std::string::npos);
}

TEST_F(SplitAdviceTest, DrafterAmongTheStages_noFlagSaysSo) {
  auto all = reports(kEven, {1, 5, 1});
  all.insert(all.begin() + 1, wire::Report{});
  const std::vector<std::uint64_t> capacities(4, capacity_bytes_);
  EXPECT_EQ(split_advice(model_, {{0, {0, 2, 3}, {}}, {1, {1}, {}}}, all, capacities, 0), "");
}

TEST_F(SplitAdviceTest, LongPrompt_isNoSlowness) {
  // As measured with a prompt of 3243 tokens: its time depends almost only on the layers, and hardly on the output.
  auto all = reports({{0, 5}, {5, 8}}, {1, 1});
  all[0].busy_s = 1.46;
  all[1].busy_s = 0.57;
  const Layout two{{0, {0, 1}, {}}};
  EXPECT_NE(advice(all, two), "");
  EXPECT_EQ(split_advice(model_, two, all, std::vector<std::uint64_t>(2, capacity_bytes_), 0, {3243, 32, 512}), "");
}

TEST_F(SplitAdviceTest, GoodSplit_isNotSpokenOf) {
  EXPECT_EQ(advice(reports(kEven, {1, 1.8, 1}), kThree), "") << "not twice as long";
  EXPECT_EQ(advice(reports({{0, 4}, {4, 5}, {5, 8}}, {1, 5, 1}), kThree), "") << "it is the best split already";
  EXPECT_EQ(advice(reports({{0, 8}}, {5}), {{0, {0}, {}}}), "");
  auto few = reports(kEven, {1, 5, 1});
  few[2].runs = 3;
  EXPECT_EQ(advice(few, kThree), "") << "too few runs to tell";
  capacity_bytes_ = 1;
  EXPECT_EQ(advice(reports(kEven, {1, 5, 1}), kThree), "") << "there is no memory for it";
}

}  // namespace
}  // namespace yamata
