// The two routes of a cancellation: whom the head tells, and what stages pass on, also while they compute.
#include <gtest/gtest.h>

#include <deque>
#include <utility>

#include "mpi/pipeline/pipeline.hpp"
#include "mpi/transport/local_transport.hpp"
#include "tests/mpi/instant_unit.hpp"

namespace yamata::test {
namespace {

using Runs = std::vector<std::uint64_t>;
constexpr std::int32_t kCells = 16, kSequences = 2;

/// A unit that has loaded at once, and whose runs never end.
class EndlessUnit final : public simulation::TableUnit {
 public:
  void begin(const simulation::TableShape&, std::size_t rows, const std::atomic<bool>* stop, std::function<void(bool)> done) override {
    stop_ = stop;
    endless_ = rows > 0;
    if (!endless_) done(true);
  }
  bool finished() const override { return !endless_; }
  bool wait_for(std::chrono::microseconds) override { return true; }
  std::uint64_t progress() const override { return 0; }
  double busy_seconds() const override { return 0; }
  bool stopped() const { return stop_ && *stop_; }

 private:
  const std::atomic<bool>* stop_ = nullptr;
  bool endless_ = false;
};

simulation::TableShape shape_of(std::int32_t stage, std::size_t stages) {
  simulation::TableShape shape;
  shape.stage = stage, shape.stages = static_cast<std::int32_t>(stages);
  shape.cells = kCells, shape.sequences = kSequences;
  shape.logits = [](std::uint64_t, std::span<float> logits) { std::ranges::fill(logits, 0.0f); };
  return shape;
}

wire::Record record_of(std::uint64_t run) {
  wire::Record record;
  record.run = run;
  record.tokens = {3};
  record.placements = {{static_cast<std::int32_t>(run), -1, {0, 1}}};
  record.logit_rows = {0};
  return record;
}

wire::Bytes activations_of(std::uint64_t run) {
  const std::vector<float> row = simulation::row_of(1, 2);
  return wire::encode(wire::Rows{.run = run, .values = row});
}

/// What has been sent to a rank: runs and route of each cancellation.
std::vector<std::pair<Runs, CancelRoute>> told(LocalNetwork& network, int rank) {
  LocalTransport transport(network, rank);
  std::vector<std::pair<Runs, CancelRoute>> all;
  while (const auto message = transport.receive()) {
    if (message->tag != Tag::kCancel) continue;
    const wire::Cancel cancel = wire::decode_cancel(message->bytes);
    all.emplace_back(cancel.runs, cancel.route);
  }
  return all;
}

using Told = std::vector<std::pair<Runs, CancelRoute>>;
const Told kNothing;

/// One of four stages of a rank each, which has run 1: it computes it, or has ended it if the unit is instant.
template <class Unit>
struct StageWithARun {
  explicit StageWithARun(int rank) : transport(network, rank), model(shape_of(rank, stages.size()), unit) {
    stage.load();
    stage.on_record(wire::encode(record_of(1)));
    stage.on_activations(activations_of(1));
    while (stage.advance()) {
    }
  }

  const std::vector<std::vector<int>> stages{{0}, {1}, {2}, {3}};
  LocalNetwork network{4};
  LocalTransport transport;
  Unit unit;
  simulation::TableModel model;
  Stage stage{model, transport, PipelineRanks{kTargetChannel, stages}};
};

TEST(CancelRoute, Head_tellsEveryRank_orTheLeaderOfTheLastStage) {
  const std::vector<std::vector<int>> stages{{0, 1}, {2}, {3, 4}};
  for (const CancelRoute route : {CancelRoute::kDirect, CancelRoute::kBackward}) {
    LocalNetwork network(5);
    LocalTransport transport(network, 0);
    InstantUnit unit;
    Pipeline pipeline(transport, PipelineRanks{kTargetChannel, stages},
                      std::make_unique<simulation::TableModel>(shape_of(0, stages.size()), unit), kCells, kSequences);
    pipeline.cancel(Runs{7, 9}, route);
    const Told direct{{{7, 9}, CancelRoute::kDirect}}, backward{{{7, 9}, CancelRoute::kBackward}};
    const bool back = route == CancelRoute::kBackward;
    EXPECT_EQ(told(network, 1), direct) << "it shares the head's stage";
    EXPECT_EQ(told(network, 2), back ? kNothing : direct);
    EXPECT_EQ(told(network, 3), back ? backward : direct);
    EXPECT_EQ(told(network, 4), back ? kNothing : direct);
  }
}

/// A rank that only relays what it has received would tell the others too late (hazard of PipeInfer's code).
TEST(CancelRoute, StageThatComputes_passesABackwardCancellationOnAtOnce) {
  StageWithARun<EndlessUnit> one(2);
  ASSERT_TRUE(one.stage.computing());
  one.stage.on_cancel({.runs = {1, 2}, .route = CancelRoute::kDirect});
  EXPECT_EQ(told(one.network, 1), kNothing);
  one.stage.on_cancel({.runs = {1, 2}, .route = CancelRoute::kBackward});
  EXPECT_EQ(told(one.network, 1), (Told{{{1, 2}, CancelRoute::kBackward}}));
  EXPECT_TRUE(one.unit.stopped());
  EXPECT_EQ(told(one.network, 0), kNothing);
}

TEST(CancelRoute, RunsThatHaveEnded_areNotPassedOn) {
  StageWithARun<InstantUnit> one(3);
  one.stage.on_cancel({.runs = {1}, .route = CancelRoute::kBackward});
  EXPECT_EQ(told(one.network, 2), kNothing);
  one.stage.on_cancel({.runs = {1, 2}, .route = CancelRoute::kBackward});
  EXPECT_EQ(told(one.network, 2), (Told{{{2}, CancelRoute::kBackward}}));
}

TEST(CancelRoute, LeaderOfAGroup_tellsItsMembersAndTheStageBefore) {
  const std::vector<std::vector<int>> stages{{0}, {1, 2}, {3, 4}};
  for (const int leader : {3, 1}) {
    LocalNetwork network(5);
    LocalTransport transport(network, leader);
    InstantUnit unit;
    simulation::TableModel model(shape_of(leader == 3 ? 2 : 1, stages.size()), unit);
    Stage stage(model, transport, PipelineRanks{kTargetChannel, stages});
    stage.on_cancel({.runs = {5}, .route = CancelRoute::kBackward});
    EXPECT_EQ(told(network, leader + 1), (Told{{{5}, CancelRoute::kDirect}}));
    EXPECT_EQ(told(network, leader == 3 ? 1 : 0), leader == 3 ? (Told{{{5}, CancelRoute::kBackward}}) : kNothing);
  }
}

}  // namespace
}  // namespace yamata::test
