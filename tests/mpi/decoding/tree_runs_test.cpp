// A text and its guesses on a pipeline: their cells, the results of runs, and cancellation.
#include "mpi/decoding/tree_runs.hpp"

#include <gtest/gtest.h>

#include "mpi/transport/local_transport.hpp"
#include "src/simulation/table_model.hpp"

namespace yamata {
namespace {

using Ids = std::vector<std::int32_t>;

/// Computes at once.
class InstantUnit final : public simulation::TableUnit {
 public:
  void begin(const simulation::TableShape&, std::size_t, const std::atomic<bool>*, std::function<void(bool)> done) override { done(true); }
  bool finished() const override { return true; }
  bool wait_for(std::chrono::microseconds) override { return true; }
  std::uint64_t progress() const override { return 0; }
  double busy_seconds() const override { return 0; }
};

/// A row's only logit identifies the prefix that it has seen.
float seen(std::uint64_t prefix) { return static_cast<float>(prefix % 100003); }
float seen(const Ids& text) { return seen(simulation::prefix_hash(text)); }

/// Remembers the likely row of the latest run.
class LikelyRows final : public simulation::TableModel {
 public:
  LikelyRows(simulation::TableShape shape, simulation::TableUnit& unit, std::int32_t& latest)
      : TableModel(std::move(shape), unit), latest_(latest) {}
  void start(const StageBatch& batch, const std::atomic<bool>* stop) override {
    latest_ = batch.likely_row;
    TableModel::start(batch, stop);
  }

 private:
  std::int32_t& latest_;
};

class TreeRunsTest : public testing::Test {
 protected:
  TreeRunsTest() : network_(1), transport_(network_, 0) {
    simulation::TableShape shape;
    shape.cells = 64, shape.sequences = 8, shape.vocabulary = 1;
    shape.logits = [](std::uint64_t prefix, std::span<float> logits) { logits[0] = seen(prefix); };
    pipeline_ = std::make_unique<Pipeline>(transport_, PipelineRanks{kTargetChannel, {{0}}},
                                           std::make_unique<LikelyRows>(shape, unit_, likely_row_), 64, 8);
    batcher_.emplace(*pipeline_);
    pipeline_->stage().load();
    pipeline_->advance();
  }
  /// Computes everything that was submitted.
  void compute() {
    while (pipeline_->advance()) {
    }
    while (auto message = transport_.receive()) pipeline_->on_message(std::move(*message));
  }
  /// The logits of the only run in flight.
  std::vector<float> result(TreeRuns& runs) {
    compute();
    const auto done = runs.take_result();
    EXPECT_TRUE(done && !done->run.nodes.empty());
    return done ? done->result.logits : std::vector<float>{};
  }
  static NodeId guess(TreeRuns& runs, NodeId parent, std::int32_t token, float probability = 0.5f) {
    return runs.tree().add(parent, token, probability, {0, probability});
  }

  LocalNetwork network_;
  LocalTransport transport_;
  InstantUnit unit_;
  std::int32_t likely_row_ = -1;
  std::unique_ptr<Pipeline> pipeline_;
  std::optional<Batcher> batcher_;
};

TEST_F(TreeRunsTest, TwoTextsAtOnce_eachInSequencesOfItsOwn_doNotSeeEachOther) {
  TreeRuns first(*batcher_, {0, 4}, {}), second(*batcher_, {4, 8}, {});
  first.begin(Ids{1, 2, 3});
  first.submit_root();
  EXPECT_EQ(result(first), (std::vector{seen(Ids{1, 2, 3})}));
  second.begin(Ids{7, 8});
  second.submit_root();
  EXPECT_EQ(result(second), (std::vector{seen(Ids{7, 8})}));
  for (TreeRuns* runs : {&first, &second}) {
    Ids text = runs->text();
    const NodeId a = guess(*runs, runs->tree().root().id, 20), b = guess(*runs, runs->tree().root().id, 21), c = guess(*runs, a, 22);
    ASSERT_TRUE(runs->submit(std::vector{a, b, c}));
    Ids with_b = text, with_c = text;
    text.push_back(20);
    with_b.push_back(21);
    with_c.insert(with_c.end(), {20, 22});
    EXPECT_EQ(result(*runs), (std::vector{seen(text), seen(with_b), seen(with_c)}));
    runs->commit(20);
    runs->commit(22);
  }
  first.commit(5);
  ASSERT_TRUE(first.submit(std::vector{first.tree().root().id}));
  EXPECT_EQ(result(first), (std::vector{seen(Ids{1, 2, 3, 20, 22, 5})}));
}

TEST_F(TreeRunsTest, AnotherText_beginsInTheSameSequences_andResultsOfTheOneBeforeBelongToNobody) {
  TreeRuns runs(*batcher_, {0, 4}, {});
  for (int text = 0; text < 20; ++text) {
    runs.begin(Ids(30, text));
    runs.submit_text(29);
    runs.submit_root();
    compute();
    runs.begin(Ids{text, 9});
    EXPECT_EQ(runs.in_flight(), 0u);
    runs.submit_root();
    compute();
    int late = 0;
    std::optional<TreeRuns::Finished> done;
    while ((done = runs.take_result()) && done->run.nodes.empty()) ++late;
    EXPECT_EQ(late, 2);
    ASSERT_TRUE(done);
    EXPECT_EQ(done->result.logits, (std::vector{seen(Ids{text, 9})}));
    EXPECT_EQ(pipeline_->cells().free_cells(), 64 - 2) << "of the longer text before nothing is left";
  }
}

TEST_F(TreeRunsTest, RunsWithoutALivingNode_areCancelled_exceptWhereTheTextNeedsTheirCells) {
  TreeRuns runs(*batcher_, {0, 4}, {});
  runs.begin(Ids{1});
  runs.submit_root();
  const NodeId a = guess(runs, runs.tree().root().id, 2), b = guess(runs, runs.tree().root().id, 3), c = guess(runs, a, 4);
  for (const NodeId id : {a, b, c}) ASSERT_TRUE(runs.submit(std::vector{id}));
  EXPECT_EQ(runs.live(), 4u);
  EXPECT_TRUE(runs.speculating());
  runs.commit(2);  // before any result, as on drafters
  EXPECT_EQ(runs.cancel_dead(), 1u) << "b's, but not the old root's, which is text";
  runs.commit(4);
  EXPECT_EQ(runs.cancel_dead(), 0u) << "nor a's";
  EXPECT_EQ(runs.live(), 3u);
  compute();
  float last = 0;
  while (const auto done = runs.take_result()) {
    if (!done->result.skipped) last = done->result.logits.back();
  }
  EXPECT_EQ(last, seen(Ids{1, 2, 4}));
}

TEST_F(TreeRunsTest, AcceptedGuesses_areInTheStatesAfterTheNextRunThatIsNotSkipped) {
  TreeRuns runs(*batcher_, {0, 4}, {});
  runs.begin(Ids{1});
  runs.submit_root();
  const NodeId a = guess(runs, runs.tree().root().id, 2), b = guess(runs, a, 3), c = guess(runs, b, 4);
  ASSERT_TRUE(runs.submit(std::vector{a, b}));
  EXPECT_EQ(runs.not_in_states(), 0);
  runs.commit(2);
  runs.commit(3);
  EXPECT_EQ(runs.not_in_states(), 2);
  ASSERT_TRUE(runs.submit(std::vector{c}));
  EXPECT_EQ(runs.not_in_states(), 2) << "the run may yet be skipped";
  compute();
  while (runs.take_result()) {
  }
  EXPECT_EQ(runs.not_in_states(), 0);
  runs.commit(4);
  EXPECT_EQ(runs.not_in_states(), 1);
  runs.commit(5);
  EXPECT_EQ(runs.not_in_states(), 1) << "it has not been sent";
  ASSERT_TRUE(runs.submit(std::vector{runs.tree().root().id}));
  EXPECT_EQ(runs.not_in_states(), 0) << "the root's run is never skipped";
}

TEST_F(TreeRunsTest, LikelyRow_isTheDeepestGuessThatWillBecomeTextRatherThanNot) {
  TreeRuns runs(*batcher_, {0, 4}, {});
  runs.begin(Ids{1});
  const NodeId root = runs.tree().root().id, a = guess(runs, root, 2, 0.8f), b = guess(runs, a, 3, 0.7f), c = guess(runs, b, 4, 0.8f);
  const NodeId other = guess(runs, root, 5, 0.2f);
  const auto likely_of = [&](std::vector<NodeId> nodes) {
    EXPECT_TRUE(runs.submit(nodes));
    result(runs);
    return likely_row_;
  };
  EXPECT_EQ(likely_of({root, a, other, b, c}), 3) << "b: .56; c: .45";
  runs.commit(2);
  runs.commit(3);
  const NodeId d = guess(runs, c, 6, 0.9f);
  EXPECT_EQ(likely_of({d}), 0) << "after what has become text: .72";
  EXPECT_EQ(likely_of({guess(runs, d, 7, 0.6f)}), -1) << ".43";
  runs.commit(9);
  EXPECT_EQ(likely_of({runs.tree().root().id}), -1) << "no guess";
}

TEST_F(TreeRunsTest, ARunThatWasSkipped_hasWrittenNoState) {
  TreeRuns runs(*batcher_, {0, 4}, {});
  runs.begin(Ids{1});
  runs.submit_root();
  ASSERT_TRUE(runs.submit(std::vector{guess(runs, runs.tree().root().id, 2)}));
  compute();
  while (runs.take_result()) {
  }
  runs.commit(2);
  ASSERT_TRUE(runs.submit(std::vector{guess(runs, runs.tree().root().id, 3)}));
  runs.commit(4);
  ASSERT_EQ(runs.cancel_dead(), 1u);
  compute();
  const auto done = runs.take_result();
  ASSERT_TRUE(done && done->result.skipped);
  EXPECT_EQ(runs.not_in_states(), 1) << "of the accepted 2";
}

}  // namespace
}  // namespace yamata
