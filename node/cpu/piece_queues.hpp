#pragma once
// Work stealing: threads share the pieces of an operation, so that a thread on a slow or busy core delays the others only a little.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace yamata {

/// Each thread owns some pieces of an operation, which it takes one after another. When it has none left, it takes those of its partners:
/// the threads 1, 2, 4, 8 ... after it, with wrap-around. So each thread looks at few queues, usually of its own NUMA node first, and
/// equally many threads look at its queue. The result of a piece must not depend on the thread.
class PieceQueues {
 public:
  explicit PieceQueues(int threads) : queues_(static_cast<std::size_t>(threads)) {}

  /// Before a run, by one thread: all queues are full.
  void fill() {
    for (Queue& queue : queues_) queue.turn = 0, queue.taken[0] = 0, queue.taken[1] = 0;
  }
  /// Called by every thread between an operation's last piece and the following barrier: fills this thread's queue for the next operation.
  /// Two alternating counters: a thread that is late in the previous operation reads the other one.
  void next_operation(int thread) {
    Queue& queue = queues_[static_cast<std::size_t>(thread)];
    queue.turn ^= 1;
    queue.taken[queue.turn].store(0, std::memory_order_relaxed);
  }
  /// open(owner) returns the pieces of a thread, with count() and compute(piece). Returns when no piece is left that this thread may take.
  template <class Open>
  void drain(int thread, Open open) {
    const int threads = static_cast<int>(queues_.size()), turn = queues_[static_cast<std::size_t>(thread)].turn;
    drain_one(thread, turn, open);
    for (int further = 1; further < threads; further *= 2) drain_one((thread + further) % threads, turn, open);
  }

 private:
  struct alignas(64) Queue {
    std::atomic<std::int64_t> taken[2]{};
    int turn = 0;  // the counter in use; only read by its own thread
  };

  static constexpr std::int64_t kNoneLeft = std::int64_t{1} << 62;

  template <class Open>
  void drain_one(int owner, int turn, Open& open) {
    std::atomic<std::int64_t>& taken = queues_[static_cast<std::size_t>(owner)].taken[turn];
    if (taken.load(std::memory_order_relaxed) >= kNoneLeft) return;
    const auto pieces = open(owner);
    const std::int64_t count = pieces.count();
    for (std::int64_t piece; (piece = taken.fetch_add(1, std::memory_order_relaxed)) < count;) pieces.compute(piece);
    taken.store(kNoneLeft, std::memory_order_relaxed);
  }

  std::vector<Queue> queues_;
};

}  // namespace yamata
