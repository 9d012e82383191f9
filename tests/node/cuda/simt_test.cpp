// The emulated device itself: what threads of a block see of each other, and kernels that no card would forgive.
#include "node/cuda/emulation/simt.hpp"

#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

namespace yamata::simt {
namespace {

class SimtOrders : public testing::TestWithParam<Order> {
 protected:
  SimtOrders() { set_order(GetParam(), 5); }
  ~SimtOrders() override { set_order(Order::kForward); }
};

void sum_of_block(const int* x, int* out) {
  int* sums = shared<int>();
  int value = x[block_x() * threads() + thread()];
  for (unsigned distance = 16; distance > 0; distance /= 2) value += shuffle_xor(value, distance);
  if (lane() == 0) sums[warp()] = value;
  sync_block();
  if (thread() > 0) return;
  out[block_x()] = 0;
  for (unsigned i = 0; i < warps(); ++i) out[block_x()] += sums[i];
}

TEST_P(SimtOrders, Threads_meetAtBarriersAndShuffles) {
  std::vector<int> x(3 * 128), out(3);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<int>(i);
  launch(&sum_of_block, {3, 1}, 128, 4 * sizeof(int), nullptr, static_cast<const int*>(x.data()), out.data());
  EXPECT_EQ(out, (std::vector<int>{127 * 64, 127 * 64 + 128 * 128, 127 * 64 + 2 * 128 * 128}));
}

void product(const std::int8_t* a, const std::int8_t* b, int* d) {
  const unsigned row = lane() / 4, k = lane() % 4 * 4;
  const auto word = [](const std::int8_t* from) {
    std::uint32_t value;
    std::memcpy(&value, from, sizeof value);
    return value;
  };
  int whole[4], halves[2][4];
  mma_k32(whole, {word(a + row * 32 + k), word(a + (row + 8) * 32 + k), word(a + row * 32 + 16 + k), word(a + (row + 8) * 32 + 16 + k)},
          {word(b + row * 32 + k), word(b + row * 32 + 16 + k)}, 9);
  for (unsigned half = 0; half < 2; ++half) {
    const unsigned at = 16 * half + k;
    mma_k16(halves[half], word(a + row * 32 + at), word(a + (row + 8) * 32 + at), word(b + row * 32 + at), 5);
  }
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned at = (row + i / 2 * 8) * 8 + lane() % 4 * 2 + i % 2;
    d[at] = whole[i];
    d[128 + at] = halves[0][i] + halves[1][i];
  }
}

TEST_P(SimtOrders, TensorCores_multiplySignedBytes) {
  std::vector<std::int8_t> a(16 * 32), b(8 * 32);  // rows of a, columns of b
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<std::int8_t>(i * 37);
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = static_cast<std::int8_t>(i * 91 + 5);
  std::vector<int> d(256);
  launch(&product, {1, 1}, 32, 0, nullptr, static_cast<const std::int8_t*>(a.data()), static_cast<const std::int8_t*>(b.data()), d.data());
  for (std::size_t row = 0; row < 16; ++row) {
    for (std::size_t col = 0; col < 8; ++col) {
      int sum = 0;
      for (std::size_t k = 0; k < 32; ++k) sum += a[row * 32 + k] * b[col * 32 + k];
      EXPECT_EQ(d[row * 8 + col], 9 + sum);
      EXPECT_EQ(d[128 + row * 8 + col], 5 + 5 + sum);
    }
  }
}

void half_a_barrier(int*) {
  if (thread() < 32) sync_block();
}
void half_a_warp(int*) {
  if (lane() < 16) sync_warp();
}

TEST_P(SimtOrders, ThreadsThatWaitForOthersThatWillNotCome_areAnError) {
  int* none = nullptr;
  EXPECT_THROW(launch(&half_a_barrier, {1, 1}, 64, 0, nullptr, none), std::logic_error);
  EXPECT_THROW(launch(&half_a_warp, {1, 1}, 32, 0, nullptr, none), std::logic_error);
  EXPECT_THROW(launch(&half_a_warp, {1, 1}, 33, 0, nullptr, none), std::logic_error) << "no whole warps";
  EXPECT_THROW(launch(&half_a_warp, {1, 1}, 32, 49 << 10, nullptr, none), std::logic_error) << "too much shared memory";
}

INSTANTIATE_TEST_SUITE_P(Orders, SimtOrders, testing::Values(Order::kForward, Order::kReverse, Order::kRandom));

TEST(Simt, FourBytes_areMultipliedAndPermuted) {
  EXPECT_EQ(dot4(0xff028001u, 0x7f037f02u, 10), 10 + 1 * 2 + -128 * 127 + 2 * 3 + -1 * 127);
  EXPECT_EQ(byte_permute(0x33221100u, 0x77665544u, 0x7250u), 0x77225500u);
}

}  // namespace
}  // namespace yamata::simt
