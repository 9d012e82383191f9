// Cost of a synchronization (UnitMeeting) of two units that arrive at the same time, each on a core of its own. A layer has four.
#include <benchmark/benchmark.h>
#include <sched.h>

#include <thread>

#include "node/spin_wait.hpp"
#include "node/unit_meeting.hpp"

namespace yamata {
namespace {

void stay_on(int core) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(core, &one);
  sched_setaffinity(0, sizeof one, &one);
}

void meet(benchmark::State& state) {
  constexpr int kMeetings = 1000;
  UnitMeeting meeting(2, kSpinsBound);
  stay_on(0);
  for (auto _ : state) {
    state.PauseTiming();
    meeting.begin({});
    std::thread other([&meeting] {
      stay_on(1);
      for (int i = 0; i <= kMeetings; ++i) meeting.meet(1, true);
    });
    meeting.meet(0, true);  // the other unit is there
    state.ResumeTiming();
    for (int i = 0; i < kMeetings; ++i) meeting.meet(0, true);
    state.PauseTiming();
    other.join();
    state.ResumeTiming();
  }
  state.counters["ns per meeting"] =
      benchmark::Counter(kMeetings, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}
BENCHMARK(meet)->UseRealTime();

}  // namespace
}  // namespace yamata

BENCHMARK_MAIN();
