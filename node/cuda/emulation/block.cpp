#include "node/cuda/emulation/block.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <span>
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

Block& Block::of_thread() {
  thread_local Block block;
  t_current = &block;
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
    lanes_.push_back(std::make_unique<Thread>());
    for (auto& words : words_) words.emplace_back();
  }
  states_.resize(shape.threads);
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
    Thread& thread = *lanes_[i];
    thread.fiber.begin(body, argument);
    thread.turn = 0;
    thread.copies.clear(), thread.groups.clear(), thread.done = 0;
  }
  std::ranges::fill(states_, State::kReady);
  at_block_ = ended_ = 0;
  const unsigned warps = shape_.threads / kWarp;
  for (;;) {
    bool ran = false;
    const unsigned first = offset(warps);
    for (unsigned i = 0; i < warps; ++i) ran |= run_warp(nth(i, warps, first));
    if (ended_ == shape_.threads) return;
    if (at_block_ == shape_.threads) {
      std::ranges::fill(states_, State::kReady);
      at_block_ = 0;
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
      if (states_[at] != State::kReady) continue;
      current_ = at;
      Fiber& fiber = lanes_[at]->fiber;
      fiber.resume();
      if (fiber.ended()) {
        states_[at] = State::kEnded;
        ++ended_;
      }
      ran = true;
    }
  } while (release_warp(begin));
  return ran;
}

/// Releases the warp if all of its lanes wait for each other.
bool Block::release_warp(unsigned begin) {
  const auto warp = std::span(states_).subspan(begin, kWarp);
  if (!std::ranges::all_of(warp, [](State state) { return state == State::kAtWarp; })) return false;
  std::ranges::fill(warp, State::kReady);
  return true;
}

void Block::wait(State state) {
  states_[current_] = state;
  at_block_ += state == State::kAtBlock;
  lanes_[current_]->fiber.yield();
}

void Block::sync_block() { wait(State::kAtBlock); }
void Block::sync_warp() { wait(State::kAtWarp); }

/// Double buffer: a late lane may still read the words of one exchange when others write those of the next.
const Block::Words* Block::exchange(const Words& words) {
  const unsigned lane = current_, turn = lanes_[lane]->turn++ % 2;
  words_[turn][lane] = words;
  sync_warp();
  return &words_[turn][lane / kWarp * kWarp];
}

void Block::wait_copies(std::size_t latest) {
  Thread& thread = *lanes_[current_];
  if (thread.groups.size() <= latest) return;
  const std::size_t end = thread.groups[thread.groups.size() - latest - 1];
  for (; thread.done < end; ++thread.done) {
    const Copy& copy = thread.copies[thread.done];
    std::memcpy(copy.to, copy.from, copy.bytes);
  }
}

}  // namespace yamata::simt
