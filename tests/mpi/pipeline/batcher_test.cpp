// Runs with rows of several texts: what is put into one, and who gets which part of the result.
#include "mpi/pipeline/batcher.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <optional>

#include "mpi/transport/local_transport.hpp"
#include "src/simulation/draft_heads_table.hpp"
#include "src/simulation/table_model.hpp"
#include "tests/mpi/hand_unit.hpp"

namespace yamata {
namespace {

using Ids = std::vector<std::int32_t>;

constexpr std::int32_t kCells = 32, kSequences = 8, kVocabulary = 3;

/// The logits of a row tell which prefix it has seen.
std::vector<float> logits_after(std::uint64_t prefix) {
  return {static_cast<float>(prefix % 100003), static_cast<float>(prefix % 1009), static_cast<float>(prefix % 101)};
}
std::vector<float> logits_after(const Ids& text) { return logits_after(simulation::prefix_hash(text)); }
std::vector<float> joined(std::vector<float> a, const std::vector<float>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

class BatcherTest : public testing::Test {
 protected:
  explicit BatcherTest(bool heads = false) : network_(1), transport_(network_, 0) {
    simulation::TableShape shape;
    shape.cells = kCells, shape.sequences = kSequences, shape.vocabulary = kVocabulary;
    shape.logits = [](std::uint64_t prefix, std::span<float> logits) { std::ranges::copy(logits_after(prefix), logits.begin()); };
    std::unique_ptr<StageModel> model;
    if (heads)
      model = std::make_unique<simulation::DraftHeadsTable>(shape, Ids{kOutputFeatures}, unit_);
    else
      model = std::make_unique<simulation::TableModel>(shape, unit_);
    pipeline_ = std::make_unique<Pipeline>(transport_, PipelineRanks{kTargetChannel, {{0}}}, std::move(model), kCells, kSequences);
    pipeline_->stage().load();
    compute();
    unit_.widths.clear();
    batcher_.emplace(*pipeline_);
  }
  ~BatcherTest() override { unit_.finish(); }

  /// A text in a sequence; `fork`: with another token after its first one, in the next sequence.
  static wire::Record text(const Ids& tokens, std::int32_t sequence, std::optional<std::int32_t> fork = {}) {
    wire::Record record;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const auto at = static_cast<std::int32_t>(i);
      record.tokens.push_back(tokens[i]);
      record.placements.push_back({at, at - 1, {sequence, at == 0 && fork ? sequence + 2 : sequence + 1}});
      record.logit_rows.push_back(at);
    }
    if (!fork) return record;
    record.logit_rows.push_back(static_cast<std::int32_t>(tokens.size()));
    record.tokens.push_back(*fork);
    record.placements.push_back({1, 0, {sequence + 1, sequence + 2}});
    return record;
  }
  void compute() {
    for (bool anything = true; anything;) {
      unit_.finish();
      anything = pipeline_->advance();
      while (auto message = transport_.receive()) {
        pipeline_->on_message(std::move(*message));
        anything = true;
      }
    }
  }

  LocalNetwork network_;
  LocalTransport transport_;
  std::int64_t ns_ = 0;
  test::HandUnit unit_{ns_};
  std::unique_ptr<Pipeline> pipeline_;
  std::optional<Batcher> batcher_;
};

TEST_F(BatcherTest, PartsOfSeveralTexts_areOneRun_andEachTextGetsItsRows) {
  PipelineLane a(*batcher_), b(*batcher_), c(*batcher_);
  batcher_->collect();
  const std::uint64_t run = a.submit(text({5, 6}, 0));
  EXPECT_EQ(b.submit(text({7, 8, 9}, 2, 4)), run);
  EXPECT_EQ(c.submit(text({1, 1}, 5, 2)), run);
  EXPECT_EQ(batcher_->rows(), 9);
  EXPECT_EQ(pipeline_->outstanding(), 0u) << "not before it is told to";
  batcher_->send();
  EXPECT_EQ(batcher_->rows(), 0);
  compute();
  EXPECT_EQ(unit_.widths, std::vector<std::size_t>{9});
  const auto of_c = c.take_result(), of_a = a.take_result(), of_b = b.take_result();
  ASSERT_TRUE(of_a && of_b && of_c);
  EXPECT_EQ(of_a->logits, joined(logits_after(Ids{5}), logits_after(Ids{5, 6})));
  EXPECT_EQ(of_b->logits,
            joined(joined(joined(logits_after(Ids{7}), logits_after(Ids{7, 8})), logits_after(Ids{7, 8, 9})), logits_after(Ids{7, 4})));
  EXPECT_EQ(of_c->logits, joined(joined(logits_after(Ids{1}), logits_after(Ids{1, 1})), logits_after(Ids{1, 2})));
  EXPECT_EQ(of_a->run, run);
  EXPECT_EQ((std::vector{of_a->rows, of_b->rows, of_c->rows}), (std::vector{9, 0, 0})) << "so that its time counts once";
  EXPECT_FALSE(a.take_result() || b.take_result() || c.take_result());
}

class BatcherOfHeadsTest : public BatcherTest {
 protected:
  BatcherOfHeadsTest() : BatcherTest(true) {}
  /// The second token of a text, with the features of the first.
  static wire::Record second_token(std::int32_t first, std::int32_t token, std::int32_t sequence) {
    wire::Record record;
    record.tokens = {token};
    record.placements = {{1, -1, {sequence, sequence + 1}}};
    record.logit_rows = {0};
    record.features = simulation::features_of(simulation::token_hash(first, 0), simulation::prefix_hash(Ids{first}), kOutputFeatures);
    return record;
  }
};

TEST_F(BatcherOfHeadsTest, RowsWithFeatures_shareARun_butNotWithGuesses) {
  PipelineLane a(*batcher_), b(*batcher_), c(*batcher_);
  a.submit(second_token(1, 2, 0));
  batcher_->collect();
  const std::uint64_t run = b.submit(second_token(5, 6, 2));
  EXPECT_EQ(c.submit(second_token(7, 8, 4)), run);
  wire::Record guess;
  guess.tokens = {3}, guess.placements = {{2, -1, {0, 1}}}, guess.logit_rows = {0};
  EXPECT_GT(a.submit(guess), run) << "it has none";
  batcher_->send();
  compute();
  EXPECT_EQ(unit_.widths, (std::vector<std::size_t>{1, 2, 1}));
  EXPECT_EQ(b.take_result()->logits, logits_after(Ids{5, 6}));
  EXPECT_EQ(c.take_result()->logits, logits_after(Ids{7, 8}));
  EXPECT_EQ(a.take_result()->logits, logits_after(Ids{1, 2}));
  EXPECT_EQ(a.take_result()->logits, logits_after(Ids{1, 2, 3}));
}

TEST_F(BatcherTest, OfTheBestLogits_eachPartGetsAtLeastWhatItAskedFor) {
  PipelineLane a(*batcher_), b(*batcher_), all(*batcher_);
  wire::Record one = text({5}, 0), two = text({6}, 1);
  one.best = 1, two.best = 1;
  batcher_->collect();
  a.submit(one);
  b.submit(two);
  all.submit(text({7}, 2));  // all logits: these would go for the others, too
  batcher_->send();
  compute();
  EXPECT_EQ(unit_.widths, (std::vector<std::size_t>{2, 1}));
  const auto of_a = a.take_result(), of_b = b.take_result(), of_all = all.take_result();
  ASSERT_TRUE(of_a && of_b && of_all);
  EXPECT_EQ(of_a->row(0, 1)[0], logits_after(Ids{5})[0]);
  EXPECT_EQ(of_b->row(0, 1)[0], logits_after(Ids{6})[0]);
  EXPECT_EQ(of_all->logits, logits_after(Ids{7}));
}

TEST_F(BatcherTest, ARunIsSkipped_onlyIfNoTextNeedsIt) {
  PipelineLane a(*batcher_), b(*batcher_);
  const auto send_both = [&](Ids x, Ids y) {
    batcher_->collect();
    const std::uint64_t run = a.submit(text(x, 0));
    b.submit(text(y, 1));
    batcher_->send();
    return run;
  };
  (void)send_both({1}, {2});  // keeps the stage busy
  pipeline_->advance();
  const std::uint64_t needed = send_both({3}, {4}), unneeded = send_both({5}, {6});
  a.cancel(std::vector{needed, unneeded}, CancelRoute::kDirect);
  b.cancel(std::vector{unneeded}, CancelRoute::kDirect);
  compute();
  EXPECT_EQ(unit_.widths, (std::vector<std::size_t>{2, 2})) << "the third was skipped";
  for (PipelineLane* lane : {&a, &b}) {
    EXPECT_FALSE(lane->take_result()->skipped);
    EXPECT_FALSE(lane->take_result()->skipped) << "computed, because the other text needs it";
    EXPECT_TRUE(lane->take_result()->skipped);
  }
}

TEST_F(BatcherTest, ATextThatIsOver_doesNotKeepARun_norTakeTheOthersResult) {
  auto a = std::make_unique<PipelineLane>(*batcher_);
  PipelineLane b(*batcher_);
  b.submit(text({1}, 1));
  pipeline_->advance();
  batcher_->collect();
  a->submit(text({5}, 0));
  const std::uint64_t unneeded = b.submit(text({6}, 1));
  batcher_->send();
  batcher_->collect();
  a->submit(text({7}, 0));
  b.submit(text({8}, 1));
  batcher_->send();
  a.reset();
  b.cancel(std::vector{unneeded}, CancelRoute::kDirect);
  compute();
  EXPECT_EQ(b.take_result()->logits, logits_after(Ids{1}));
  EXPECT_TRUE(b.take_result()->skipped);
  EXPECT_EQ(b.take_result()->logits, logits_after(Ids{8}));
  EXPECT_FALSE(b.take_result());
}

TEST_F(BatcherTest, ASecondPartOfAText_andOneThatFindsNoCells_areRunsOfTheirOwn) {
  PipelineLane a(*batcher_), b(*batcher_);
  batcher_->collect();
  const std::uint64_t first = a.submit(text({1, 2}, 0));
  EXPECT_LT(first, a.submit(text(Ids(28, 3), 1)));
  wire::Record frees = text({4, 4, 4}, 2);
  frees.operations.push_back(CacheOperation::remove({0, 1}, {}));
  b.submit(frees);  // beside the 30 there are two free cells, and its operation frees two more
  batcher_->send();
  compute();
  EXPECT_EQ(unit_.widths, (std::vector<std::size_t>{2, 28, 3}));
  EXPECT_EQ(b.take_result()->logits.size(), 9u);
}

}  // namespace
}  // namespace yamata
