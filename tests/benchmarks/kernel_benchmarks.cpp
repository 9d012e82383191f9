// Measures single kernels on one core: GB/s, Gop/s, and `ceiling`, the share of the speed that is possible with the core's memory bandwidth
// and peak rate, whichever is the limit. Weights and KV cache are larger than the processor's caches.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <numeric>

#include "node/cpu/kernels/repack.hpp"
#include "node/cpu/probe/probe.hpp"
#include "node/topology.hpp"
#include "tests/node/cpu/kernels/support.hpp"

namespace yamata::cpu {
namespace {

constexpr std::int64_t kCols = 4096;

/// The core's peak rates, measured once.
struct Core {
  Isa isa = choose_isa();
  const KernelTable& table = kernels(isa);
  std::size_t memory_bytes = probe_memory_bytes();
  double read_bytes_per_s = 0, byte_ops_per_s = 0, float_ops_per_s = 0;

  Core() {
    MachineProbe probe(assign_cpus(Topology::detect(), 1, 0, 1), isa, memory_bytes);
    read_bytes_per_s = probe.read_bytes_per_s(1);
    byte_ops_per_s = probe.byte_ops_per_s(1);
    float_ops_per_s = probe.float_ops_per_s(1);
  }
};
const Core& core() {
  static const Core it;
  return it;
}

/// The least work of an iteration.
struct Work {
  double bytes = 0;  ///< from memory, not from caches
  double byte_ops = 0, float_ops = 0;
};

/// Runs the kernel as often as the library asks, and counts its work per wall time, like the ceilings.
template <class Kernel>
void time(benchmark::State& state, const Work& work, Kernel kernel) {
  using Clock = std::chrono::steady_clock;
  const auto began = Clock::now();
  for ([[maybe_unused]] auto _ : state) {
    kernel();
    benchmark::ClobberMemory();
  }
  const double each_s = std::chrono::duration<double>(Clock::now() - began).count() / static_cast<double>(state.iterations());
  const double min_s =
      std::max(work.bytes / core().read_bytes_per_s, work.byte_ops / core().byte_ops_per_s + work.float_ops / core().float_ops_per_s);
  if (work.bytes > 0) state.counters["GB/s"] = work.bytes / each_s / 1e9;
  state.counters["Gop/s"] = (work.byte_ops + work.float_ops) / each_s / 1e9;
  state.counters["ceiling"] = min_s / each_s;
}

/// A matrix of whole panels that is larger than the caches: copies of one panel of random weights.
std::vector<std::byte> large_matrix(TensorType type, std::int64_t& rows) {
  constexpr std::int64_t kPanel = 16;
  Random random(1);
  Weights panel(type, random_weights(random, type, kPanel, kCols), kPanel, kCols);
  panel.pack(core().table);
  const std::size_t panels = std::max<std::size_t>(1, core().memory_bytes / panel.bytes.size());
  std::vector<std::byte> bytes(panels * panel.bytes.size());
  for (std::size_t i = 0; i < panels; ++i) std::memcpy(bytes.data() + i * panel.bytes.size(), panel.bytes.data(), panel.bytes.size());
  rows = static_cast<std::int64_t>(panels) * kPanel;
  return bytes;
}

void matmul(benchmark::State& state, TensorType type, std::int64_t width) {
  std::int64_t rows = 0;
  const std::vector<std::byte> weights = large_matrix(type, rows);
  const std::size_t row_bytes = weights.size() / static_cast<std::size_t>(rows);
  Random random(2);
  Activations x(core().table, random_floats(random, static_cast<std::size_t>(width * kCols)), width, kCols);
  std::vector<float> y(static_cast<std::size_t>(rows * width));
  std::vector<std::byte> scratch(static_cast<std::size_t>(core().table.panel_rows) * row_bytes);
  const bool packed = core().table.panel_rows > 0 && has_panels(type);
  const double operations = 2.0 * static_cast<double>(rows * kCols * width);
  const auto bytes = static_cast<double>(weights.size());
  time(state, has_panels(type) ? Work{bytes, operations, 0} : Work{bytes, 0, operations}, [&] {
    core().table.matmul[static_cast<std::size_t>(type)](
        {weights.data(), row_bytes, packed, 0, rows, kCols, x.x.data(), x.quantized(), width, y.data(), rows, false, scratch.data()});
  });
}

/// Four query heads that share a key/value head, with a KV cache that is larger than the processor's caches.
void attention(benchmark::State& state, TensorType type, std::int64_t width) {
  constexpr std::int64_t kHeads = 4, kHeadDim = 128;
  const std::size_t cell_bytes = kHeadDim / traits(type).block_elements * traits(type).block_bytes;
  const auto chunks = static_cast<std::int64_t>(core().memory_bytes / (2 * cell_bytes * kAttentionChunk));
  const std::int64_t cells = chunks * kAttentionChunk;
  std::vector<std::byte> k(static_cast<std::size_t>(cells) * cell_bytes), v(k.size());
  Random random(3);
  const std::vector<float> cell = random_floats(random, kHeadDim),
                           q = random_floats(random, static_cast<std::size_t>(width * kHeads * kHeadDim));
  for (auto* plane : {&k, &v}) {
    for (std::int64_t c = 0; c < cells; ++c) core().table.store_cell(cell.data(), kHeadDim, type, plane->data(), c);
  }
  std::vector<std::int32_t> list(static_cast<std::size_t>(cells));
  std::iota(list.begin(), list.end(), 0);
  const auto queries = static_cast<std::size_t>(width * kHeads);
  std::vector<float> peak(queries), total(queries), out(queries * kHeadDim);
  std::vector<AttentionRow> rows;
  for (std::int64_t r = 0; r < width; ++r) {
    const std::int64_t at = r * kHeads;
    rows.push_back({q.data() + at * kHeadDim, list.data(), cells, peak.data() + at, total.data() + at, out.data() + at * kHeadDim});
  }
  const double operations = 4.0 * static_cast<double>(width * kHeads * kHeadDim * cells);
  time(state, {static_cast<double>(k.size() + v.size()), 0, operations}, [&] {
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk)
      core().table.attention({rows.data(), width, chunk, k.data(), v.data(), type, type, 0.1f, kHeads, kHeadDim, 0});
  });
}

void rms_norm(benchmark::State& state) {
  Random random(4);
  const std::vector<float> x = random_floats(random, kCols), weight = random_floats(random, kCols);
  Activations y(core().table, x, 1, kCols);
  std::vector<float> squares(kCols / 32);
  time(state, {0, 0, 4.0 * kCols}, [&] {
    core().table.block_squares(x.data(), kCols, squares.data());
    core().table.quantize(x.data(), weight.data(), core().table.inverse_rms(squares.data(), kCols, 1e-5f), 0, kCols, y.quantized(), 0);
  });
}

void quantize(benchmark::State& state) {
  Random random(5);
  Activations x(core().table, random_floats(random, kCols), 1, kCols);
  time(state, {0, 0, 2.0 * kCols}, [&] { core().table.quantize(x.x.data(), nullptr, 1, 0, kCols, x.quantized(), 0); });
}

void add_benchmarks() {
  for (const TensorType type : kAllTypes) {
    for (const std::int64_t width : {1, 4, 8, 16}) {
      benchmark::RegisterBenchmark(fmt::format("matmul/{}/{}", traits(type).name, width).c_str(),
                                   [=](benchmark::State& state) { matmul(state, type, width); });
    }
  }
  for (const TensorType type : {TensorType::F32, TensorType::F16, TensorType::Q8_0}) {
    for (const std::int64_t width : {1, 4, 8}) {
      benchmark::RegisterBenchmark(fmt::format("attention/{}/{}", traits(type).name, width).c_str(),
                                   [=](benchmark::State& state) { attention(state, type, width); });
    }
  }
  benchmark::RegisterBenchmark("rms_norm", rms_norm);
  benchmark::RegisterBenchmark("quantize", quantize);
}

}  // namespace
}  // namespace yamata::cpu

int main(int argc, char** argv) {
  using namespace yamata::cpu;
  add_benchmarks();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::AddCustomContext("isa", isa_name(core().isa));
  benchmark::AddCustomContext("ceilings of one core",
                              fmt::format("{:.2f} GB/s, {:.0f} int8 Gop/s, {:.0f} float Gop/s", core().read_bytes_per_s / 1e9,
                                          core().byte_ops_per_s / 1e9, core().float_ops_per_s / 1e9));
  benchmark::RunSpecifiedBenchmarks();
}
