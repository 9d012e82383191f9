#pragma once
// A thread block of the emulated device on one host thread: one fiber per thread, scheduled from barrier to barrier.
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "node/cuda/emulation/fiber.hpp"
#include "node/memory.hpp"

namespace yamata::simt {

/// The order in which warps, the lanes of a warp and the blocks of a launch run.
enum class Order { kForward, kReverse, kRandom };
/// For all launches from now on, of all host threads.
void set_order(Order order, unsigned seed = 1);

/// Runs the threads of a block, one block after another. It is an error if threads wait for each other at different places, or for one that
/// has ended.
class Block {
 public:
  struct Shape {
    unsigned grid_x, grid_y, threads;
    std::size_t shared_bytes;
  };
  static constexpr unsigned kMaxThreads = 1024;
  static constexpr std::size_t kMaxSharedBytes = 64 << 10;  ///< what GPUs since Volta have

  /// The block that runs on this host thread.
  static Block& current() { return t_current ? *t_current : of_thread(); }

  /// Runs body(argument) on every thread of every block. Throws std::logic_error for such an error, and for a shape that no GPU supports.
  void run(const Shape& shape, void (*body)(void*), void* argument);

  unsigned thread() const { return current_; }
  unsigned threads() const { return shape_.threads; }
  unsigned block_x() const { return block_x_; }
  unsigned block_y() const { return block_y_; }
  unsigned grid_x() const { return shape_.grid_x; }
  std::byte* shared() const { return shared_; }

  void sync_block();
  void sync_warp();
  static constexpr unsigned kWords = 6;
  using Words = std::array<std::uint32_t, kWords>;
  /// Gives the lane's words to its warp; returns the words of all lanes, valid until the call after the next.
  const Words* exchange(const Words& words);

  /// Copies of this thread, in groups: done when it waits for them, and no earlier.
  void copy_later(void* to, const void* from, unsigned bytes) { lanes_[current_]->copies.push_back({to, from, bytes}); }
  void commit_copies() { lanes_[current_]->groups.push_back(lanes_[current_]->copies.size()); }
  /// Does all but the latest groups.
  void wait_copies(std::size_t latest);

 private:
  enum class State : std::uint8_t { kReady, kAtBlock, kAtWarp, kEnded };
  struct Copy {
    void* to;
    const void* from;
    unsigned bytes;
  };
  struct Thread {
    Fiber fiber;
    unsigned turn = 0;  // number of its exchanges
    std::vector<Copy> copies;
    std::vector<std::size_t> groups;  // the ends of groups among the copies
    std::size_t done = 0;             // copies
  };
  static Block& of_thread();
  void run_block(void (*body)(void*), void* argument);
  bool run_warp(unsigned warp);
  bool release_warp(unsigned begin);
  void wait(State state);
  unsigned nth(unsigned i, unsigned n, unsigned offset) const;
  unsigned offset(unsigned n);
  void map_shared();

  Shape shape_{};
  Order order_ = Order::kForward;
  std::minstd_rand random_;
  unsigned current_ = 0, block_x_ = 0, block_y_ = 0;
  unsigned at_block_ = 0, ended_ = 0;  // numbers of threads in these states
  std::vector<std::unique_ptr<Thread>> lanes_;
  std::vector<State> states_;
  std::vector<Words> words_[2];
  PageMemory shared_pages_;
  std::byte* shared_ = nullptr;
  static thread_local constinit Block* t_current;
};
inline thread_local constinit Block* Block::t_current = nullptr;

}  // namespace yamata::simt
