// What bounds a device, for launch/gpu-check: how fast it copies its own memory, and how long launches and barriers with the host take.
//
//     device_probe [MIB]      of the memory that is copied; 256 by default. The device as YAMATA_TEST_DEVICE names it, else an emulated one
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "node/cuda/device/launcher.hpp"
#include "node/median.hpp"
#include "tests/node/cuda/scenes.hpp"

namespace yamata::cuda {
namespace {

template <class Work>
double seconds(Device& device, const Work& work) {
  const auto began = std::chrono::steady_clock::now();
  work();
  device.wait(device.mark());
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}

/// The median of some runs; the first, which brings memory in, is left out.
template <class Work>
double median_seconds(Device& device, int runs, const Work& work) {
  std::vector<double> all;
  seconds(device, work);
  for (int i = 0; i < runs; ++i) all.push_back(seconds(device, work));
  return median(all);
}

void probe(std::int64_t mib) {
  constexpr std::int64_t kCols = 16384;
  const TestDevice test;
  Device& device = test.device();
  const std::int64_t rows = std::max<std::int64_t>(1, mib * (1 << 20) / 4 / kCols);
  const auto bytes = static_cast<std::size_t>(rows * kCols) * sizeof(float);
  const auto from = device.allocate(bytes, DeviceMemory::kLocal), to = device.allocate(bytes, DeviceMemory::kLocal);
  const auto copy = [&](std::int64_t count) {
    const CopyArgs args{reinterpret_cast<const float*>(from->data()), nullptr, kCols, count, count == 1 ? 32 : kCols,
                        reinterpret_cast<float*>(to->data()),         kCols};
    device.kernels().copy(args, device.stream());
    device.check("copying");
  };
  // The faster of a kernel and of CUDA's own copy.
  const double copied_s = std::min(median_seconds(device, 9, [&] { copy(rows); }),
                                   median_seconds(device, 9, [&] { device.copy_in(to->data(), from->data(), bytes); }));
  const double barrier_s = median_seconds(device, 201, [&] { copy(1); });
  const auto list_s = [&](LaunchOptions options, std::size_t barriers) {
    Launcher launcher(device, options);
    constexpr std::size_t kLaunches = 24;
    return median_seconds(device, 101, [&] {
      launcher.begin({from->data(), 1, kLaunches}, barriers, true);
      for (std::size_t i = 0; i < kLaunches; ++i) {
        if (barriers > 0 && i % (kLaunches / barriers) == 0) launcher.barrier([] { return true; }, false);
        device.kernels().copy(
            {reinterpret_cast<const float*>(from->data()), nullptr, kCols, 1, 32, reinterpret_cast<float*>(to->data()), kCols}, &launcher);
      }
      launcher.flush();
    });
  };
  constexpr std::size_t kBarriers = 8;
  const double singly_s = list_s({.graphs = false}, 0), graph_s = list_s({.graphs = true}, 0);
  const double host_s = (list_s({}, kBarriers) - graph_s) / kBarriers;
  const double stream_s = (list_s({.graphs = true, .stream_waits = true}, kBarriers) - graph_s) / kBarriers;
  std::printf("{\"list_us\": %.2f, \"graph_us\": %.2f, \"host_barrier_us\": %.2f, \"stream_barrier_us\": %.2f, \"stream_waits\": %s, ",
              1e6 * singly_s, 1e6 * graph_s, 1e6 * host_s, 1e6 * stream_s, device.properties().waits ? "true" : "false");
  std::printf(
      "\"device\": \"%s\", \"name\": \"%s\", \"unified\": %s, \"memory_mib\": %llu, \"free_mib\": %llu, \"copy_gb_per_s\": %.3f, "
      "\"barrier_us\": %.2f}\n",
      device.id().c_str(), device.properties().name.c_str(), device.properties().unified ? "true" : "false",
      static_cast<unsigned long long>(device.properties().memory_bytes >> 20),
      static_cast<unsigned long long>(device.properties().free_bytes >> 20), 2e-9 * static_cast<double>(bytes) / copied_s, 1e6 * barrier_s);
}

}  // namespace
}  // namespace yamata::cuda

int main(int argc, char** argv) {
  try {
    yamata::cuda::probe(argc > 1 ? std::max(1L, std::strtol(argv[1], nullptr, 10)) : 256);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "device_probe: %s\n", error.what());
    return 1;
  }
  return 0;
}
