// Kernels of devices give the bits of the CPU's scalar ones: every type, width and odd shape, in whatever order threads take their turns.
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>

#include "node/cuda/emulation/block.hpp"
#include "tests/node/cuda/scenes.hpp"
#include "tests/thorough.hpp"

namespace yamata::cuda {
namespace {

std::vector<simt::Order> orders() {
  if (!TestDevice::emulated()) return {simt::Order::kForward};
  if (!test::thorough()) return {simt::Order::kReverse, simt::Order::kRandom};
  return {simt::Order::kForward, simt::Order::kReverse, simt::Order::kRandom};
}

/// Those that devices multiply with.
std::vector<TensorType> device_types() {
  std::vector<TensorType> types;
  std::ranges::copy_if(cpu::kAllTypes, std::back_inserter(types),
                       [](TensorType type) { return kEmulatedKernels.formats[static_cast<std::size_t>(type)] != nullptr; });
  return types;
}

class DeviceProducts : public testing::TestWithParam<TensorType> {};

TEST_P(DeviceProducts, areTheCpusForEveryWidthAndShape) {
  const TestDevice device;
  const std::int64_t block = traits(GetParam()).block_elements, unit = std::max<std::int64_t>(block, 32);
  for (const simt::Order order : orders()) {
    simt::set_order(order, 7);
    for (std::int64_t tokens : {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 33, 64, 257}) {
      // The longest matrix goes with the widths that take long least.
      const std::int64_t cols = tokens <= 16 ? 9 * unit : unit;
      EXPECT_TRUE(product_holds(device, {GetParam(), 33, cols, tokens})) << tokens << " tokens";
      EXPECT_TRUE(product_holds(device, {GetParam(), 1, unit, tokens, 0, 1, true})) << tokens << " tokens, one row";
    }
    if (cpu::is_float(GetParam())) {
      EXPECT_TRUE(product_holds(device, {GetParam(), 50, 331, 5, 16, 41}));
      EXPECT_TRUE(product_holds(device, {GetParam(), 3, 7, 2}));
    }
    EXPECT_TRUE(product_holds(device, {GetParam(), 100, 3 * unit, 3, 48, 91})) << "some rows";
    EXPECT_TRUE(product_holds(device, {GetParam(), 100, 3 * unit, 20, 17, 91})) << "some rows, many tokens";
    for (const std::int64_t tokens : {1, 18}) EXPECT_TRUE(products_hold_together(device, GetParam(), tokens)) << tokens;
  }
  simt::set_order(simt::Order::kForward);
}

INSTANTIATE_TEST_SUITE_P(Types, DeviceProducts, testing::ValuesIn(device_types()),
                         [](const auto& info) { return std::string(traits(info.param).name); });

TEST(DeviceKernels, OfRowsAndCaches_giveTheBitsOfTheCpu) {
  const TestDevice device;
  for (const simt::Order order : orders()) {
    simt::set_order(order, 3);
    for (const Scene& scene : all_scenes()) EXPECT_TRUE(scene.holds(device)) << scene.name;
  }
  simt::set_order(simt::Order::kForward);
}

}  // namespace
}  // namespace yamata::cuda
