// Cost of a synchronization (UnitBarrier) of two units that arrive at the same time, each on a core of its own. A layer has four.
#include <benchmark/benchmark.h>
#include <sched.h>

#include <thread>

#include "node/spin_wait.hpp"
#include "node/unit_barrier.hpp"

namespace yamata {
namespace {

void stay_on(int core) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(core, &one);
  sched_setaffinity(0, sizeof one, &one);
}

void wait_at_barrier(benchmark::State& state) {
  constexpr int kBarriers = 1000;
  UnitBarrier barrier(2, kSpinsBound);
  stay_on(0);
  for (auto _ : state) {
    state.PauseTiming();
    barrier.begin({});
    std::thread other([&barrier] {
      stay_on(1);
      for (int i = 0; i <= kBarriers; ++i) barrier.wait(1, true);
    });
    barrier.wait(0, true);  // the other unit is there
    state.ResumeTiming();
    for (int i = 0; i < kBarriers; ++i) barrier.wait(0, true);
    state.PauseTiming();
    other.join();
    state.ResumeTiming();
  }
  state.counters["ns per barrier"] =
      benchmark::Counter(kBarriers, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}
BENCHMARK(wait_at_barrier)->UseRealTime();

}  // namespace
}  // namespace yamata

BENCHMARK_MAIN();
