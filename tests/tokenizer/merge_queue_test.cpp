#include "src/tokenizer/merge_queue.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <queue>
#include <random>

namespace yamata {
namespace {

struct Merge {
  std::uint32_t rank = 0;
  std::int64_t left = 0;
  std::uint32_t priority() const { return rank; }
  bool operator<(const Merge& other) const { return rank > other.rank || (rank == other.rank && left > other.left); }
};

/// Merges come as in a text: first from left to right, then around what was merged, with any priority, also a better one.
void expect_order_of_heap(std::size_t symbols, std::uint32_t ranks, unsigned seed) {
  std::mt19937 random(seed);
  const auto below = [&](std::size_t most) { return std::uniform_int_distribution<std::size_t>(0, most - 1)(random); };
  MergeQueue<Merge> queue(symbols);
  std::priority_queue<Merge> heap;
  const auto push = [&](std::size_t left) {
    const Merge merge{static_cast<std::uint32_t>(below(ranks)), static_cast<std::int64_t>(left)};
    queue.push(merge);
    heap.push(merge);
  };
  for (std::size_t i = 0; i < symbols; ++i) push(i);
  std::size_t further = symbols;
  while (!heap.empty()) {
    ASSERT_FALSE(queue.empty());
    const Merge merge = queue.pop();
    ASSERT_EQ(merge.rank, heap.top().rank);
    ASSERT_EQ(merge.left, heap.top().left);
    heap.pop();
    for (std::size_t n = below(3); n > 0 && further > 0; --n, --further) push(below(symbols));
  }
  EXPECT_TRUE(queue.empty());
}

TEST(MergeQueue, AnyText_givesTheOrderOfAHeap) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    for (const std::size_t symbols : {1u, 60u, 1024u, 1025u, 5000u}) {
      for (const std::uint32_t ranks : {1u, 3u, 4000u}) expect_order_of_heap(symbols, ranks, seed);
    }
  }
}

}  // namespace
}  // namespace yamata
