#include "node/cpu/thread_pool.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <latch>
#include <stdexcept>
#include <thread>

#include "tests/node/little_memory.hpp"

namespace yamata {
namespace {

constexpr int kManyJobs = 10'000;

std::vector<int> unbound(int threads) { return std::vector<int>(static_cast<std::size_t>(threads), -1); }

class ThreadPoolOf : public testing::TestWithParam<int> {
 protected:
  const int threads_ = GetParam();
  ThreadPool pool_{unbound(GetParam())};
};

TEST_P(ThreadPoolOf, Job_runsOnceOnEveryIndex) {
  ASSERT_EQ(pool_.size(), threads_);
  std::vector<int> runs(static_cast<std::size_t>(threads_));
  for (int job = 1; job <= 20; ++job) {
    pool_.start([&](int thread) { ++runs.at(static_cast<std::size_t>(thread)); });
    pool_.wait();
    EXPECT_TRUE(pool_.finished());
    EXPECT_EQ(runs, std::vector<int>(static_cast<std::size_t>(threads_), job));
  }
}

TEST_P(ThreadPoolOf, Barrier_letsNobodyAheadOfTheOthers) {
  constexpr int kPhases = 100;
  std::vector<int> phase(static_cast<std::size_t>(threads_));  // plain integers: TSan reports a race on them
  std::atomic<int> early{0};
  pool_.start([&](int thread) {
    for (int p = 1; p <= kPhases; ++p) {
      phase[static_cast<std::size_t>(thread)] = p;
      pool_.barrier();
      for (const int other : phase) early += other != p;
      pool_.barrier();
    }
  });
  pool_.wait();
  EXPECT_EQ(early, 0);
  EXPECT_EQ(phase, std::vector<int>(static_cast<std::size_t>(threads_), kPhases));
}

TEST_P(ThreadPoolOf, Exception_reachesTheCallerOnceWhoeverThrows) {
  for (int thrower = 0; thrower < threads_; ++thrower) {
    pool_.start([&](int thread) {
      pool_.barrier();
      if (thread == thrower) throw std::runtime_error("from " + std::to_string(thread));
      pool_.barrier();  // the other threads must not wait here for the one that failed
      ADD_FAILURE() << "thread " << thread << " went on without thread " << thrower;
    });
    try {
      pool_.wait();
      ADD_FAILURE() << "nothing was thrown";
    } catch (const std::runtime_error& error) {
      EXPECT_EQ(error.what(), "from " + std::to_string(thrower));
    }
    EXPECT_TRUE(pool_.finished());
    EXPECT_NO_THROW(pool_.wait());
  }
}

TEST_P(ThreadPoolOf, AfterAnException_jobsAndBarriersWorkAgain) {
  for (int round = 0; round < 20; ++round) {
    pool_.start([&](int thread) {
      if (thread == 0) throw std::logic_error("broken");
      pool_.barrier();
    });
    EXPECT_THROW(pool_.wait(), std::logic_error);
    std::atomic<int> arrived{0}, seen_all{0};
    pool_.start([&](int) {
      ++arrived;
      pool_.barrier();
      seen_all += arrived == threads_;
    });
    EXPECT_NO_THROW(pool_.wait());
    EXPECT_EQ(seen_all, threads_);
  }
}

TEST_P(ThreadPoolOf, AllThrow_givesOneOfThem) {
  pool_.start([](int thread) { throw thread; });
  EXPECT_THROW(pool_.wait(), int);
  EXPECT_NO_THROW(pool_.wait());
}

TEST_P(ThreadPoolOf, Destruction_endsIdleThreadsAndWaitsForARunningJob) {
  for (int round = 0; round < 50; ++round) {
    const ThreadPool idle(unbound(threads_));
    std::atomic<int> ended{0};
    {
      ThreadPool busy(unbound(threads_));
      busy.start([&](int) {
        busy.barrier();
        ++ended;
      });
    }
    EXPECT_EQ(ended, threads_);
  }
}

INSTANTIATE_TEST_SUITE_P(Threads, ThreadPoolOf, testing::Range(1, 9));

TEST(ThreadPool, MoreThreadsThanCores_stillMeetAtBarriers) {
  const int threads = 4 * static_cast<int>(std::max(1u, std::thread::hardware_concurrency())) + 1;
  ThreadPool pool(unbound(threads));
  std::atomic<int> sum{0};
  pool.start([&](int thread) {
    for (int i = 0; i < 20; ++i) pool.barrier();
    sum += thread;
  });
  pool.wait();
  EXPECT_EQ(sum, threads * (threads - 1) / 2);
}

TEST(ThreadPool, ManySmallJobsBackToBack_allRun) {
  ThreadPool pool(unbound(2));
  long long count[2] = {};
  for (int job = 0; job < kManyJobs; ++job) {
    pool.start([&count, job](int thread) { count[thread] += job % 7; });
    pool.wait();
  }
  long long expected = 0;
  for (int job = 0; job < kManyJobs; ++job) expected += job % 7;
  EXPECT_EQ(count[0], expected);
  EXPECT_EQ(count[1], expected);
}

TEST(ThreadPool, WaitFor_isFalseWhileTheJobRuns) {
  ThreadPool pool(unbound(2));
  std::latch go(1);
  pool.start([&](int thread) {
    if (thread == 1) go.wait();
  });
  EXPECT_FALSE(pool.wait_for(std::chrono::microseconds(0)));
  EXPECT_FALSE(pool.wait_for(std::chrono::microseconds(100)));
  EXPECT_FALSE(pool.finished());
  go.count_down();
  pool.wait();
  EXPECT_TRUE(pool.wait_for(std::chrono::microseconds(0)));
}

TEST(ThreadPool, EndOfAJob_isToldOnceToWhoeverAskedAndToNobodyAfterwards) {
  ThreadPool pool({-1, -1});
  std::atomic<int> told{0};
  pool.when_finished([&] { ++told; });
  for (int i = 1; i <= 3; ++i) {
    pool.start([](int) {});
    pool.wait();
    while (told < i) std::this_thread::yield();
  }
  pool.when_finished(nullptr);
  EXPECT_EQ(told, 3);
  pool.start([](int) {});
  pool.wait();
  EXPECT_EQ(told, 3);
}

TEST(ThreadPool, BoundThread_runsOnItsCpuOnly) {
  cpu_set_t mine;
  ASSERT_EQ(sched_getaffinity(0, sizeof(mine), &mine), 0);
  int cpu = 0;
  while (!CPU_ISSET(static_cast<std::size_t>(cpu), &mine)) ++cpu;
  ThreadPool pool({cpu, -1});
  cpu_set_t found[2];
  pool.start([&](int thread) { sched_getaffinity(0, sizeof(cpu_set_t), &found[thread]); });
  pool.wait();
  EXPECT_EQ(CPU_COUNT(&found[0]), 1);
  EXPECT_TRUE(CPU_ISSET(static_cast<std::size_t>(cpu), &found[0]));
  EXPECT_TRUE(CPU_EQUAL(&found[1], &mine));
}

TEST(ThreadPool, CpuThatIsNotThere_leavesTheThreadUnbound) {
  ThreadPool pool({1023});
  std::atomic<int> runs{0};
  pool.start([&](int) { ++runs; });
  pool.wait();
  EXPECT_EQ(runs, 1);
}

#ifdef YAMATA_TEST_LITTLE_MEMORY
TEST(ThreadPoolDeathTest, ThreadsThatCannotStart_areReported) {
  EXPECT_EXIT(test::end_in_little_memory([] { ThreadPool pool(unbound(100)); }), testing::ExitedWithCode(2),
              "cannot start 100 threads, only [0-9]+: .*; lower -t, or raise the limit of processes .ulimit -u., of memory .ulimit -v.");
}
#endif

}  // namespace
}  // namespace yamata
