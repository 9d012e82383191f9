#include "node/cuda/emulation/block.hpp"

#include <sys/mman.h>

#include <atomic>
#include <cstring>
#include <stdexcept>
#include <string>

#include "node/cuda/kernels/simt_types.hpp"

namespace yamata::simt {
namespace {

std::atomic<Order> g_order{Order::kForward};
std::atomic<unsigned> g_seed{1};
constexpr std::size_t kPage = 4096;

}  // namespace

void set_order(Order order, unsigned seed) {
  g_order = order;
  g_seed = seed;
}

Block& Block::current() {
  thread_local Block block;
  return block;
}

unsigned Block::offset(unsigned n) { return order_ == Order::kRandom ? static_cast<unsigned>(random_()) % n : 0; }

/// The i-th of n in the order of turns: rotated by `offset`, or from the last one on.
unsigned Block::nth(unsigned i, unsigned n, unsigned offset) const { return order_ == Order::kReverse ? n - 1 - i : (i + offset) % n; }

/// Shared memory ends at a protected page, and is filled with bytes that are large numbers of every type.
void Block::map_shared() {
  if (shared_pages_.size() == 0) {
    shared_pages_ = PageMemory(kMaxSharedBytes + kPage, PageMemory::Pages::kSmall);
    if (mprotect(shared_pages_.data() + kMaxSharedBytes, kPage, PROT_NONE) != 0) throw std::bad_alloc();
  }
  shared_ = shared_pages_.data() + kMaxSharedBytes - (shape_.shared_bytes + 15) / 16 * 16;
  std::memset(shared_, 0x7f, shape_.shared_bytes);
}

void Block::run(const Shape& shape, void (*body)(void*), void* argument) {
  if (shape.threads == 0 || shape.threads > kMaxThreads || shape.threads % kWarp != 0 || shape.grid_x == 0 || shape.grid_y == 0 ||
      shape.grid_y > 65535 || shape.shared_bytes > kMaxSharedBytes) {
    throw std::logic_error("a launch of " + std::to_string(shape.grid_x) + " x " + std::to_string(shape.grid_y) + " blocks of " +
                           std::to_string(shape.threads) + " threads with " + std::to_string(shape.shared_bytes) + " bytes");
  }
  shape_ = shape;
  order_ = g_order;
  random_.seed(g_seed);
  while (lanes_.size() < shape.threads) {
    lanes_.emplace_back();
    for (auto& words : words_) words.emplace_back();
  }
  const unsigned blocks = shape.grid_x * shape.grid_y, first = offset(blocks);
  for (unsigned i = 0; i < blocks; ++i) {
    const unsigned block = nth(i, blocks, first);
    block_x_ = block % shape.grid_x, block_y_ = block / shape.grid_x;
    run_block(body, argument);
  }
}

void Block::run_block(void (*body)(void*), void* argument) {
  map_shared();
  for (unsigned i = 0; i < shape_.threads; ++i) {
    lanes_[i].fiber.begin(body, argument);
    lanes_[i].state = State::kReady;
    lanes_[i].turn = 0;
    lanes_[i].copies.clear(), lanes_[i].groups.clear(), lanes_[i].done = 0;
  }
  const unsigned warps = shape_.threads / kWarp;
  for (;;) {
    bool ran = false;
    const unsigned first = offset(warps);
    for (unsigned i = 0; i < warps; ++i) ran |= run_warp(nth(i, warps, first));
    unsigned ended = 0, waiting = 0;
    for (unsigned i = 0; i < shape_.threads; ++i) {
      ended += lanes_[i].state == State::kEnded;
      waiting += lanes_[i].state == State::kAtBlock;
    }
    if (ended == shape_.threads) return;
    if (waiting == shape_.threads) {
      for (unsigned i = 0; i < shape_.threads; ++i) lanes_[i].state = State::kReady;
    } else if (!ran) {
      throw std::logic_error("a kernel's threads wait for each other at different places, in block " + std::to_string(block_x_) + ", " +
                             std::to_string(block_y_));
    }
  }
}

/// Runs the lanes of a warp until they end or wait for others than each other. Returns whether any ran.
bool Block::run_warp(unsigned warp) {
  const unsigned begin = warp * kWarp;
  bool ran = false;
  do {
    const unsigned first = offset(kWarp);
    for (unsigned i = 0; i < kWarp; ++i) {
      const unsigned at = begin + nth(i, kWarp, first);
      Thread& thread = lanes_[at];
      if (thread.state != State::kReady) continue;
      current_ = at;
      thread.fiber.resume();
      if (thread.fiber.ended()) thread.state = State::kEnded;
      ran = true;
    }
  } while (release_warp(begin));
  return ran;
}

/// Releases the warp if all of its lanes wait for each other.
bool Block::release_warp(unsigned begin) {
  for (unsigned i = begin; i < begin + kWarp; ++i) {
    if (lanes_[i].state != State::kAtWarp) return false;
  }
  for (unsigned i = begin; i < begin + kWarp; ++i) lanes_[i].state = State::kReady;
  return true;
}

void Block::wait(State state) {
  Thread& thread = lanes_[current_];
  thread.state = state;
  thread.fiber.yield();
}

void Block::sync_block() { wait(State::kAtBlock); }
void Block::sync_warp() { wait(State::kAtWarp); }

/// Double buffer: a late lane may still read the words of one exchange when others write those of the next.
const Block::Words* Block::exchange(const Words& words) {
  const unsigned lane = current_, turn = lanes_[lane].turn++ % 2;
  words_[turn][lane] = words;
  sync_warp();
  return &words_[turn][lane / kWarp * kWarp];
}

void Block::wait_copies(std::size_t latest) {
  Thread& thread = lanes_[current_];
  if (thread.groups.size() <= latest) return;
  const std::size_t end = thread.groups[thread.groups.size() - latest - 1];
  for (; thread.done < end; ++thread.done) {
    const Copy& copy = thread.copies[thread.done];
    std::memcpy(copy.to, copy.from, copy.bytes);
  }
}

}  // namespace yamata::simt
