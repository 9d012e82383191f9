// How a whole job ends if some of its ranks are lost or suspended then.
#include <gtest/gtest.h>

#include "node/clock.hpp"
#include "tests/mpi/simulation/simulated_job.hpp"

namespace yamata::test {
namespace {

TEST(EndOfASimulatedJob, IdleRankThatIsSilentBeforeTheEnd_isGivenUp) {
  SimulatedJob job({.stages = 2, .idle = 1});
  job.start();
  job.stop_rank(2);
  job.head().order_stop(0);
  job.until([&] { return job.head().state() == Head::State::kStopped; });
  EXPECT_EQ(job.warnings.size(), 1u);
  EXPECT_EQ(job.head().take_reports()[2].role, "lost");
}

TEST(EndOfASimulatedJob, StopWithALimit_waitsNoLongerForRanksThatAreLost) {
  for (const int lost : {1, 2, 3}) {
    SimulatedJob job({.stages = 2, .drafters = {1}, .idle = 1, .strategy = Strategy::kPipeInfer});
    job.start();
    job.stop_rank(lost);
    const auto begin = Clock::now();
    job.head().order_stop(130, SimulatedJob::kTimeout / 5);
    job.until([&] { return job.head().state() == Head::State::kStopped; });
    EXPECT_LT(Clock::now() - begin, SimulatedJob::kTimeout / 2);
    EXPECT_TRUE(job.warnings.empty()) << job.warnings.front();
    const auto reports = job.head().take_reports();
    for (int rank = 0; rank < job.size(); ++rank) EXPECT_EQ(reports[static_cast<std::size_t>(rank)].role == "lost", rank == lost) << rank;
  }
}

TEST(EndOfASimulatedJob, LaterRankOfADraftThatIsLostBeforeTheEnd_isNamed) {
  SimulatedJob job({.stages = 1, .drafters = {2}, .strategy = Strategy::kPipeInfer});
  job.start(), job.stop_rank(2), job.head().order_stop(0);
  job.until([&] { return !job.warnings.empty(); });
  EXPECT_EQ(job.warnings[0].find("the job ends without the drafter on rank 1: rank 2 (host2) did not answer"), 0u) << job.warnings[0];
}

TEST(EndOfASimulatedJob, JobThatIsSuspendedWhileItEnds_blamesNobody) {
  SimulatedJob job({.stages = 3, .drafters = {1}, .strategy = Strategy::kPipeInfer});
  job.start();
  job.head().order_stop(0);
  job.suspend(10 * SimulatedJob::kTimeout);
  job.until([&] { return job.head().state() == Head::State::kStopped; });
  EXPECT_TRUE(job.warnings.empty()) << job.warnings.front();
  for (const auto& [rank, together] : job.disconnect(10 * SimulatedJob::kTimeout)) EXPECT_TRUE(together) << rank;
}

TEST(EndOfASimulatedJob, RankThatIsLostWhileAllPart_keepsNobodyAndIsKnownToAll) {
  SimulatedJob job({.stages = 3});
  job.start();
  job.head().order_stop(0);
  job.until([&] { return job.head().state() == Head::State::kStopped; });
  job.stop_rank(1);
  const auto together = job.disconnect();
  EXPECT_EQ(together, (std::map<int, bool>{{0, false}, {2, false}}));
}

}  // namespace
}  // namespace yamata::test
