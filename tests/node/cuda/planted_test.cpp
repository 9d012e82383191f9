// Faults planted in the kernels: each barrier and each bounds check, left out, is found by the tests of the kernels.
#include "node/cuda/emulation/planted.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <exception>

#include "node/cuda/emulation/block.hpp"
#include "tests/node/cuda/scenes.hpp"

namespace yamata::cuda {
namespace {

/// Whether all results are right in every order.
bool all_hold(const std::vector<Scene>& scenes) {
  const TestDevice device;
  for (const simt::Order order : {simt::Order::kForward, simt::Order::kReverse, simt::Order::kRandom}) {
    simt::set_order(order, 11);
    for (const Scene& scene : scenes) {
      if (!scene.holds(device)) return false;
    }
  }
  return true;
}

/// In a process of its own, which a fault may end.
bool is_found(const std::string& site, const std::vector<Scene>& scenes) {
  const pid_t child = fork();
  if (child == 0) {
    if (!std::freopen("/dev/null", "w", stderr)) _exit(2);
    simt::planted::remove(site);
    try {
      _exit(all_hold(scenes) ? 0 : 1);
    } catch (const std::exception&) {
      _exit(1);
    }
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status != 0;
}

TEST(PlantedFaults, EveryBarrierAndBoundsCheckThatIsLeftOut_isFound) {
  if (!TestDevice::emulated()) GTEST_SKIP() << "faults are planted in the emulated device";
  const std::vector<Scene> scenes = all_scenes();
  simt::planted::record(true);
  ASSERT_TRUE(all_hold(scenes));
  simt::planted::record(false);
  const std::vector<std::string> sites = simt::planted::sites();
  EXPECT_GT(sites.size(), 40u);
  for (const std::string& site : sites) EXPECT_TRUE(is_found(site, scenes)) << site;
  simt::set_order(simt::Order::kForward);
}

}  // namespace
}  // namespace yamata::cuda
