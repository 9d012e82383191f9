// Pieces shared by a team: each is computed once per operation, and those of a delayed thread are computed by its partners.
#include "node/cpu/piece_queues.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <stdexcept>
#include <thread>
#include <vector>

#include "node/cpu/thread_pool.hpp"

namespace yamata {
namespace {

/// Some pieces, which count how often they are computed.
struct Pieces {
  std::int64_t pieces;
  std::function<void(std::int64_t)> told;
  std::int64_t count() const { return pieces; }
  void compute(std::int64_t piece) const { told(piece); }
};

class PieceQueuesOf : public testing::TestWithParam<int> {
 protected:
  const int threads_ = GetParam();
  ThreadPool pool_{std::vector<int>(static_cast<std::size_t>(threads_), -1)};
  PieceQueues queues_{threads_};
};

TEST_P(PieceQueuesOf, EveryPieceOfEveryOperation_isComputedOnce) {
  constexpr int kOperations = 200, kMaxPieces = 9;
  const auto count = [](int operation, int owner) { return (operation * 5 + owner * 3) % (kMaxPieces + 1); };
  std::vector<std::vector<int>> times(kOperations, std::vector<int>(static_cast<std::size_t>(threads_ * kMaxPieces)));
  for (int run = 1; run <= 3; ++run) {  // plain integers: if a piece is taken twice, TSan reports a race
    queues_.fill();
    pool_.start([&](int thread) {
      for (int i = 0; i < kOperations; ++i) {
        queues_.drain(thread, [&](int owner) {
          return Pieces{count(i, owner), [&, i, owner](std::int64_t p) {
                          ++times[static_cast<std::size_t>(i)][static_cast<std::size_t>(owner * kMaxPieces + p)];
                        }};
        });
        queues_.next_operation(thread);
        pool_.barrier();
      }
    });
    pool_.wait();
    for (int i = 0; i < kOperations; ++i) {
      for (int owner = 0; owner < threads_; ++owner) {
        for (int p = 0; p < kMaxPieces; ++p) {
          EXPECT_EQ(times[static_cast<std::size_t>(i)][static_cast<std::size_t>(owner * kMaxPieces + p)], p < count(i, owner) ? run : 0)
              << "operation " << i << " piece " << p << " of thread " << owner;
        }
      }
    }
  }
}

TEST_P(PieceQueuesOf, PiecesOfThreadsHeldUp_areComputedByTheirPartners) {
  constexpr int kPieces = 10;
  const int held = threads_ / 2;
  std::atomic<int> through{0}, computed{0};
  queues_.fill();
  pool_.start([&](int thread) {
    while (thread < held && through < threads_ - held) std::this_thread::yield();  // it comes when the others have finished
    queues_.drain(thread, [&](int) { return Pieces{kPieces, [&, thread](std::int64_t) { computed += thread >= held; }}; });
    ++through;
  });
  pool_.wait();
  EXPECT_EQ(computed, kPieces * threads_);
}

TEST_P(PieceQueuesOf, AfterARunThatFailed_fillMakesAllPiecesThereAgain) {
  const auto work = [&](std::atomic<int>& computed, int thread, int failing) {
    for (int i = 0; i < 4; ++i) {
      if (thread == failing && i == 1) throw std::runtime_error("broken");
      queues_.drain(thread, [&](int) { return Pieces{2, [&](std::int64_t) { ++computed; }}; });
      queues_.next_operation(thread);
      pool_.barrier();
    }
  };
  for (int failing = 0; failing < threads_; ++failing) {
    std::atomic<int> lost{0}, computed{0};
    queues_.fill();
    pool_.start([&](int thread) { work(lost, thread, failing); });
    EXPECT_THROW(pool_.wait(), std::runtime_error);
    queues_.fill();
    pool_.start([&](int thread) { work(computed, thread, -1); });
    pool_.wait();
    EXPECT_EQ(computed, 4 * 2 * threads_);
  }
}

INSTANTIATE_TEST_SUITE_P(Threads, PieceQueuesOf, testing::Values(1, 2, 3, 4, 7, 8));

}  // namespace
}  // namespace yamata
