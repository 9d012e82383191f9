// How many texts at a time a job is planned for, and with how much cache.
#include "launch/program/job/job_planner.hpp"

#include <gtest/gtest.h>

#include <set>

#include "launch/program/job/job_experience.hpp"
#include "mpi/transport/local_transport.hpp"
#include "tests/launch/job/job_cluster.hpp"

namespace yamata::test {
namespace {

/// A job of one rank, on a machine with as much memory as the test says.
class JobPlannerTest : public testing::Test {
 protected:
  JobPlannerTest() : network_(1), transport_(network_, 0), rank_(tales(), transport_, {0, 1, "host", 0, 1}) { hello_ = rank_.open(); }

  struct Planned {
    int slots, cells, sequences;
  };
  Planned plan(std::uint64_t available_bytes, const ExpectedText& text) {
    JobExperience experience(rank_);
    LayoutChooser chooser(rank_, experience);
    JobPlanner planner(rank_, chooser, text);
    hello_.available_bytes = available_bytes;
    const wire::Start start = planner.plan({hello_}, {});
    return {planner.text().slots, start.pipelines.front().cells, start.pipelines.front().sequences};
  }

  LocalNetwork network_;
  LocalTransport transport_;
  JobRank rank_;
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

}  // namespace
}  // namespace yamata::test
