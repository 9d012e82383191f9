#include "node/cpu/probe/probe.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>

#include "node/topology.hpp"

namespace yamata {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr int kPasses = 3;
constexpr auto kWindow = std::chrono::milliseconds(10);  // twice the shortest period of CPU quotas in use
constexpr std::size_t kPassBytes = cpu::kProbeWords * sizeof(std::uint64_t);
constexpr std::size_t kMiB = 1 << 20;

double seconds(SteadyClock::duration d) { return std::chrono::duration<double>(d).count(); }

}  // namespace

MachineProbe::MachineProbe(const std::vector<int>& cpus, cpu::Isa isa, std::size_t memory_bytes)
    : cpus_(cpus), kernels_(cpu::probe_kernels(isa)), memory_(std::max(memory_bytes, cpus.size() * kPassBytes)) {
  ThreadPool pool(cpus_);
  pool.start([&](int thread) {
    const auto [begin, end] = part(thread, most_threads());
    std::fill(memory_.data() + begin, memory_.data() + end, std::byte{1});
  });
  pool.wait();
}

MachineProbe::Part MachineProbe::part(int thread, int threads) const {
  const std::size_t blocks = memory_.size() / kPassBytes;
  const auto edge = [&](int i) { return blocks * static_cast<std::size_t>(i) / static_cast<std::size_t>(threads) * kPassBytes; };
  return {edge(thread), edge(thread + 1)};
}

/// The best rate of several passes: the work of all threads, divided by the time from the first thread's start to the last one's end.
double MachineProbe::rate(int threads, const std::function<double(int thread)>& work) {
  struct alignas(64) Times {
    SteadyClock::time_point began, ended;
    double units = 0;
  };
  std::vector<Times> times(static_cast<std::size_t>(threads));
  ThreadPool pool({cpus_.begin(), cpus_.begin() + threads});
  double best = 0;
  for (int pass = 0; pass < kPasses; ++pass) {
    pool.start([&](int thread) {
      Times& mine = times[static_cast<std::size_t>(thread)];
      pool.barrier();
      mine.began = SteadyClock::now();
      mine.units = work(thread);
      mine.ended = SteadyClock::now();
    });
    pool.wait();
    Times all = times.front();
    for (std::size_t i = 1; i < times.size(); ++i) {
      all.began = std::min(all.began, times[i].began);
      all.ended = std::max(all.ended, times[i].ended);
      all.units += times[i].units;
    }
    best = std::max(best, all.units / std::max(seconds(all.ended - all.began), 1e-9));
  }
  return best;
}

double MachineProbe::read_bytes_per_s(int threads) {
  std::atomic<std::uint64_t> sum{0};
  return rate(threads, [&](int thread) {
    const auto [begin, end] = part(thread, threads);
    sum += kernels_.read(reinterpret_cast<const std::uint64_t*>(memory_.data() + begin), (end - begin) / sizeof(std::uint64_t));
    return static_cast<double>(end - begin);
  });
}

double MachineProbe::multiply_rate(int threads, std::uint64_t (*multiply)(std::uint32_t)) {
  constexpr std::uint32_t kRounds = 1 << 13;
  return rate(threads, [&](int) {
    double operations = 0;
    const auto until = SteadyClock::now() + kWindow;
    do {
      operations += 2.0 * static_cast<double>(multiply(kRounds));
    } while (SteadyClock::now() < until);
    return operations;
  });
}

double MachineProbe::byte_ops_per_s(int threads) { return multiply_rate(threads, kernels_.multiply_bytes); }
double MachineProbe::float_ops_per_s(int threads) { return multiply_rate(threads, kernels_.multiply_floats); }

double MachineProbe::barrier_s(int threads) {
  constexpr int kBarriers = 500;
  ThreadPool pool({cpus_.begin(), cpus_.begin() + threads});
  double best = 0;
  for (int pass = 0; pass < kPasses; ++pass) {
    SteadyClock::duration took{};
    pool.start([&](int thread) {
      pool.barrier();
      const auto began = SteadyClock::now();
      for (int i = 0; i < kBarriers; ++i) pool.barrier();
      if (thread == 0) took = SteadyClock::now() - began;
    });
    pool.wait();
    const double each = seconds(took) / kBarriers;
    best = pass == 0 ? each : std::min(best, each);
  }
  return best;
}

std::size_t probe_memory_bytes() {
  const std::size_t wanted = std::clamp(4 * last_level_cache_bytes(), 256 * kMiB, 2048 * kMiB);
  return std::min(wanted, std::max(available_memory_bytes() / 4, 16 * kMiB));
}

}  // namespace yamata
