// Faults injected into the kernels: each barrier and each bounds check, left out, is found by the tests of the kernels.
#include "node/cuda/emulation/injected_faults.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "node/cuda/emulation/block.hpp"
#include "tests/node/cuda/scenes.hpp"
#include "tests/paths.hpp"

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

/// For every barrier and bounds check that the scenes reach, these scenes.
std::map<std::string, std::vector<Scene>> scenes_of_sites() {
  std::map<std::string, std::vector<Scene>> sites;
  for (const Scene& scene : all_scenes()) {
    simt::injected::record(true);
    EXPECT_TRUE(all_hold({scene})) << scene.name;
    simt::injected::record(false);
    for (const std::string& site : simt::injected::sites()) sites[site].push_back(scene);
  }
  return sites;
}

/// In a process of its own, which a fault may end.
bool is_found(const std::string& site, const std::vector<Scene>& scenes) {
  const pid_t child = fork();
  if (child == 0) {
    if (!std::freopen("/dev/null", "w", stderr)) _exit(2);
    simt::injected::remove(site);
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

/// "file:line" of every barrier, wait and bounds check in the source of the kernels.
std::set<std::string> places_in_source() {
  std::set<std::string> places;
  for (const auto& file : std::filesystem::directory_iterator(std::filesystem::path(test::source_path()) / "node/cuda/kernels")) {
    std::ifstream in(file.path());
    std::string line;
    for (int number = 1; std::getline(in, line); ++number) {
      for (const char* call : {"simt::sync_block(", "simt::sync_warp(", "simt::wait_copies<", "simt::within("}) {
        if (line.find(call) != std::string::npos) places.insert(file.path().filename().string() + ':' + std::to_string(number));
      }
    }
  }
  return places;
}

/// "folder/file:line:column" as "file:line".
std::string place_of(const std::string& site) {
  const std::string file = site.substr(site.rfind('/') + 1);
  return file.substr(0, file.rfind(':'));
}

TEST(InjectedFaults, EveryBarrierAndBoundsCheckThatIsLeftOut_isFound) {
  if (!TestDevice::emulated()) GTEST_SKIP() << "faults are injected into the emulated device";
  const auto sites = scenes_of_sites();
  std::set<std::string> places;
  for (const auto& [site, scenes] : sites) places.insert(place_of(site));
  EXPECT_EQ(places, places_in_source()) << "a kernel is in no scene";
  for (const auto& [site, scenes] : sites) EXPECT_TRUE(is_found(site, scenes)) << site;
  simt::set_order(simt::Order::kForward);
}

}  // namespace
}  // namespace yamata::cuda
