// Two cores as two units, the second one throttled. Measures how close adaptive shares come to the sum of both cores' own speeds, one core
// after the other or both at once (each computes all, and shares only caches and memory with the other), compared with shares by isolated
// speeds (Medusa-EM), and how soon they adapt after the throttle is removed.
//   unit_shares_benchmark MODEL.gguf [SLOWNESS [ROUNDS]]
// The throttle is a pause after each operation, a multiple of the operation's time, as in launch/emulate --slow: 2.5 leaves 40 % of a core.
#include <fmt/format.h>
#include <sys/prctl.h>

#include <chrono>
#include <cstdlib>
#include <future>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "node/cpu/cpu_unit.hpp"
#include "node/median.hpp"
#include "node/spin_wait.hpp"
#include "node/units/split_unit.hpp"
#include "src/model/model_file.hpp"
#include "src/model/transformer_stage.hpp"

namespace yamata {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kWidest = 16;

double seconds_since(Clock::time_point then) { return std::chrono::duration<double>(Clock::now() - then).count(); }

/// A unit with the whole model.
class Contender {
 public:
  Contender(const ModelFile& model, std::unique_ptr<ComputeUnit> unit)
      : unit_(std::move(unit)), stage_(model.file, model.h, {0, model.h.layers}, ContextOptions{2 * kWidest, 1, CacheTypes{}}, *unit_) {
    stage_.load(nullptr);
    wait();
  }

  ComputeUnit& unit() { return *unit_; }

  /// Tokens per second of runs of `width` tokens during half a second, always at the same positions.
  double speed(int width) {
    const auto began = Clock::now();
    int tokens = 0;
    do {
      compute(width);
      tokens += width;
    } while (seconds_since(began) < 0.5);
    return tokens / seconds_since(began);
  }

  void compute(int width) {
    const std::vector<std::int32_t> tokens(static_cast<std::size_t>(width), 1);
    std::vector<Placement> placements;
    std::vector<std::int32_t> rows(tokens.size());
    std::iota(rows.begin(), rows.end(), 0);
    for (int row = 0; row < width; ++row) placements.push_back({.position = row, .parent = row - 1, .sequences = {0, 1}});
    stage_.cells().clear();
    stage_.start({tokens, {}, placements, rows}, nullptr);
    wait();
  }

 private:
  void wait() {
    while (!unit_->wait_for(std::chrono::milliseconds(100))) {
    }
  }

  std::unique_ptr<ComputeUnit> unit_;
  TransformerStage stage_;
};

std::unique_ptr<CpuUnit> core(int number, double slowness) {
  auto unit = std::make_unique<CpuUnit>(std::vector<int>{number}, cpu::choose_isa());
  unit->slow_down(slowness);
  return unit;
}

std::unique_ptr<SplitUnit> both(double first, double second, bool adapts, double slowness) {
  std::vector<UnitPart> parts;
  parts.push_back({.name = "cpu:0", .unit = core(0, 1), .share = first});
  parts.push_back({.name = "cpu:1", .unit = core(1, slowness), .share = second});
  return std::make_unique<SplitUnit>(std::move(parts), adapts, kSpinsBound);
}

/// The sum of the speeds of two units that compute at the same time without waiting for each other.
double both_at_once(Contender& fast, Contender& slow, int width) {
  auto other = std::async(std::launch::async, [&] { return slow.speed(width); });
  const double one = fast.speed(width);
  return one + other.get();
}

/// Measures all variants alternately in rounds, and prints the results.
void compare(const ModelFile& model, int width, double slowness, int rounds) {
  Contender fast(model, core(0, 1)), slow(model, core(1, slowness));
  const double first = fast.speed(width), second = slow.speed(width);
  Contender follows(model, both(1, 1, true, slowness)), stays(model, both(first, second, false, slowness));
  follows.speed(width), follows.speed(width);  // the shares adapt
  std::vector<double> of_sum, of_fixed, fixed_of_sum, at_once_of_sum;
  for (int round = 0; round < rounds; ++round) {
    const double alone = fast.speed(width) + slow.speed(width), following = follows.speed(width), fixed = stays.speed(width);
    of_sum.push_back(following / alone), of_fixed.push_back(following / fixed), fixed_of_sum.push_back(fixed / alone);
    at_once_of_sum.push_back(both_at_once(fast, slow, width) / alone);
  }
  fmt::print("width {:2}: shares that follow {:.3f} of both alone, {:.3f} of fixed shares ({:.3f} of both alone); ", width, median(of_sum),
             median(of_fixed), median(fixed_of_sum));
  fmt::print("both at once {:.3f} of both alone; {}\n", median(at_once_of_sum), follows.unit().device());
}

/// Seconds until the second core has 45 %, after its throttle is removed.
void lift(const ModelFile& model, double slowness) {
  std::vector<UnitPart> parts;
  parts.push_back({.name = "cpu:0", .unit = core(0, 1), .share = 1});
  parts.push_back({.name = "cpu:1", .unit = core(1, slowness), .share = 1});
  ComputeUnit& throttled = *parts.back().unit;
  auto split = std::make_unique<SplitUnit>(std::move(parts), true, kSpinsBound);
  SplitUnit& unit = *split;
  Contender follows(model, std::move(split));
  follows.speed(1), follows.speed(1);
  const double before = unit.shares().overall()[1];
  const auto share = [&] {  // the current share of the largest product
    double most = 0, of_it = 0;
    for (int label = 1; label < static_cast<int>(unit.shares().labels()); ++label) {
      const WorkKind& kind = unit.shares().kind(label);
      const double work = static_cast<double>(kind.outputs) * static_cast<double>(kind.inputs);
      if (kind.what == WorkKind::What::kProduct && work > most) most = work, of_it = unit.shares().of(label)[1];
    }
    return of_it;
  };
  throttled.slow_down(1);
  const auto began = Clock::now();
  while (share() < 0.45 && seconds_since(began) < 10) follows.compute(1);
  fmt::print("throttle lifted: {:.2f} of the columns before, {:.2f} after {:.2f} s\n", before, share(), seconds_since(began));
}

}  // namespace
}  // namespace yamata

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "unit_shares_benchmark MODEL.gguf [SLOWNESS [ROUNDS]]: two cores as units, the second throttled\n");
    return 1;
  }
  prctl(PR_SET_TIMERSLACK, 1);  // pauses of tens of microseconds; threads inherit it
  const double slowness = argc > 2 ? std::atof(argv[2]) : 2.5;
  const int rounds = argc > 3 ? std::atoi(argv[3]) : 7;
  const yamata::ModelFile model = yamata::ModelFile::open(argv[1]);
  for (const int width : {1, yamata::kWidest}) yamata::compare(model, width, slowness, rounds);
  yamata::lift(model, slowness);
}
