// How many texts at a time a job is planned for, and with how much cache.
#include "launch/program/job/job_planner.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <set>

#include "launch/program/job/job_experience.hpp"
#include "mpi/protocol/validate.hpp"
#include "mpi/transport/local_transport.hpp"
#include "tests/families/tiny_model.hpp"
#include "tests/launch/job/job_cluster.hpp"
#include "tests/temporary_folder.hpp"

namespace yamata::test {
namespace {

/// A job of one rank, on a machine with as much memory as the test says.
class JobPlannerTest : public testing::Test {
 protected:
  JobPlannerTest() : network_(1), transport_(network_, 0) { open(tales()); }

  void open(const JobOptions& options) {
    rank_ = std::make_unique<JobRank>(options, transport_, RankLocation{0, 1, "host", 0, 1});
    hello_ = rank_->open();
  }
  /// A small model of this family, with this context.
  void open(const std::string& variant, int context) {
    JobOptions options = tales();
    options.models.target = folder_ / (variant + ".gguf");
    options.cache.context = context;
    families_test::write_tiny_model(variant, TensorType::F32, options.models.target);
    open(options);
  }
  struct Planned {
    int slots, cells, sequences;
    int window_cells = 0, checkpoints = 0;
  };
  Planned plan(std::uint64_t available_bytes, const ExpectedText& text) {
    JobExperience experience(*rank_);
    LayoutChooser chooser(*rank_, experience);
    JobPlanner planner(*rank_, chooser, text);
    hello_.available_bytes = available_bytes;
    const wire::Start start = planner.plan({hello_}, {});
    const wire::PipelinePlan& target = start.pipelines.front();
    wire::validate(start, 1, 0);
    EXPECT_EQ(target.slots, planner.text().slots);
    return {target.slots, target.cells, target.sequences, target.window_cells, target.checkpoints};
  }

  LocalNetwork network_;
  LocalTransport transport_;
  const TemporaryFolder folder_;
  std::unique_ptr<JobRank> rank_;
  wire::Hello hello_;
};

TEST_F(JobPlannerTest, EachSlot_hasAContext_ifThereIsMemory) {
  const Planned one = plan(1u << 30, {.prompt_tokens = 8, .kept_texts = 3});
  EXPECT_EQ(one.slots, 1);
  EXPECT_EQ(one.cells, 64);
  EXPECT_EQ(one.sequences, 1 + 3);
  const Planned eight = plan(1u << 30, {.prompt_tokens = 8, .slots = 8, .kept_texts = 3});
  EXPECT_EQ(eight.slots, 8);
  EXPECT_EQ(eight.cells, 8 * 64);
  EXPECT_EQ(eight.sequences, 8 + 3);
  EXPECT_EQ(plan(1u << 30, {.prompt_tokens = 8, .slots = 8, .cache_tokens = 100}).cells, 100);
  EXPECT_EQ(plan(1u << 30, {.prompt_tokens = 8, .slots = 8, .cache_tokens = 10}).cells, 64) << "a text may fill the context";
}

TEST_F(JobPlannerTest, WithLessMemory_theSlotsShareFewerCells) {
  std::set<int> cells;
  Planned before{8, 8 * 64, 8};
  for (std::uint64_t bytes = 64u << 20; bytes > 0; bytes -= std::min<std::uint64_t>(bytes, 64u << 10)) {
    const Planned planned = plan(bytes, {.prompt_tokens = 8, .slots = 8});
    EXPECT_LE(planned.cells, before.cells);
    EXPECT_LE(planned.slots, before.slots);
    cells.insert(planned.cells);
    before = planned;
    if (planned.slots == 1) break;
  }
  EXPECT_EQ(cells, (std::set<int>{64, 2 * 64, 4 * 64, 8 * 64}));
  EXPECT_EQ(before.slots, 1) << "there is none for two texts";
}

constexpr int kWindowBefore = families_test::kWindow - 1, kRowsOfARun = 64;

TEST_F(JobPlannerTest, LayersWithAWindow_haveOneForEachSlotAndAsManyCheckpoints) {
  open("gemma3", 256);
  const Planned one = plan(1u << 30, {.prompt_tokens = 8});
  EXPECT_EQ(one.window_cells, kWindowBefore + kRowsOfARun);
  EXPECT_EQ(one.checkpoints, 0);
  EXPECT_EQ(plan(1u << 30, {.prompt_tokens = 8, .kept_texts = 32}).checkpoints, 1);
  const Planned four = plan(1u << 30, {.prompt_tokens = 8, .slots = 4, .kept_texts = 32});
  EXPECT_EQ(four.slots, 4);
  EXPECT_EQ(four.cells, 4 * 256);
  EXPECT_EQ(four.checkpoints, 4);
  EXPECT_EQ(four.window_cells, (4 + 4) * kWindowBefore + kRowsOfARun);
  EXPECT_EQ(plan(1u << 30, {.prompt_tokens = 8, .slots = 4, .kept_texts = 3}).checkpoints, 3);
  open("gemma3", 24);
  const Planned fewer = plan(1u << 30, {.prompt_tokens = 8, .slots = 6, .kept_texts = 32});
  EXPECT_EQ(fewer.window_cells, 0) << "the windows alone are more than all that there is";
  EXPECT_EQ(fewer.checkpoints, 0);
  open("gemma3", 40);
  const Planned some = plan(1u << 30, {.prompt_tokens = 8, .slots = 6, .kept_texts = 32});
  EXPECT_EQ(some.checkpoints, 3);
  EXPECT_EQ(some.window_cells, (6 + 3) * kWindowBefore + kRowsOfARun);
  EXPECT_EQ(plan(1u << 30, {}).window_cells, 0) << "a job that does not only write needs all cells";
}

TEST_F(JobPlannerTest, LayersWithStates_haveThoseOfEachSlot) {
  open("qwen35", 256);
  const Planned four = plan(1u << 30, {.prompt_tokens = 8, .slots = 4, .kept_texts = 32});
  EXPECT_EQ(four.slots, 4);
  EXPECT_EQ(four.cells, 4 * 256);
  EXPECT_EQ(four.window_cells, 1) << "no guesses, so no inputs of tokens are kept";
  EXPECT_EQ(four.checkpoints, 16);
}

class PlannedSlots : public JobPlannerTest, public testing::WithParamInterface<const char*> {};

TEST_P(PlannedSlots, WithoutMemoryForItsWindowOrStates_areLeftOut) {
  open(GetParam(), 256);
  std::set<int> slots;
  Planned before{8, 8 * 256, 8};
  for (std::uint64_t bytes = 16u << 20; bytes > 0; bytes -= std::min<std::uint64_t>(bytes, 8u << 10)) {
    const Planned planned = plan(bytes, {.prompt_tokens = 8, .slots = 8});
    EXPECT_LE(planned.slots, before.slots);
    EXPECT_TRUE(planned.cells <= before.cells || planned.slots < before.slots);
    slots.insert(planned.slots);
    before = planned;
    if (planned.slots == 1) break;
  }
  EXPECT_EQ(slots, (std::set<int>{1, 2, 4, 8}));
}

INSTANTIATE_TEST_SUITE_P(Of, PlannedSlots, testing::Values("gemma3", "qwen35"));

}  // namespace
}  // namespace yamata::test
