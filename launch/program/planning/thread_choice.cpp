#include "launch/program/planning/thread_choice.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "node/cpu/cpu_unit.hpp"
#include "node/median.hpp"
#include "src/model/layer_probe.hpp"

namespace yamata {
namespace {

constexpr double kWorthFewerThreads = 0.95;
constexpr double kOutdated = 1.1;
constexpr std::size_t kRounds = 3;

class LayerTrial final : public ThreadTrial {
 public:
  LayerTrial(const ModelFile& model, std::int64_t layer, const std::vector<int>& cpus, cpu::Isa isa)
      : unit_(cpus, isa), probe_(model, {layer, layer + 1}, unit_) {}
  bool warm_up(std::chrono::milliseconds patience) { return probe_.warm_up(patience); }
  double ns_per_byte() override { return probe_.quick_check(); }

 private:
  CpuUnit unit_;
  LayerProbe probe_;
};

/// Measures both alternately, so that other load on the machine affects both.
bool is_faster(ThreadTrial& one, ThreadTrial& than) {
  std::vector<double> ratios(kRounds);
  for (double& ratio : ratios) {
    const double before = than.ns_per_byte();
    ratio = one.ns_per_byte() / before;
  }
  return median(ratios) < kWorthFewerThreads;
}

/// The index of the fastest choice; nothing if it cannot be measured.
std::optional<std::size_t> fastest(const std::vector<std::vector<int>>& choices, const TrialMaker& make_trial) {
  auto best_trial = make_trial(choices.front());
  if (!best_trial) return std::nullopt;
  std::size_t best = 0;
  for (std::size_t next = 1; next < choices.size(); ++next) {
    auto trial = make_trial(choices[next]);
    if (!trial || !is_faster(*trial, *best_trial)) break;
    best_trial = std::move(trial);
    best = next;
  }
  return best;
}

/// Whether a kept choice is still the fastest. Measuring only this choice would not show it, because other load slows all choices: so it is
/// compared with the next larger and smaller one.
bool still_fastest(const std::vector<std::vector<int>>& choices, std::size_t kept, const TrialMaker& make_trial) {
  const auto own = make_trial(choices[kept]);
  if (!own) return true;
  const auto outdated_by = [&](std::size_t neighbour) {
    const auto other = make_trial(choices[neighbour]);
    return other && own->ns_per_byte() > kOutdated * other->ns_per_byte();
  };
  return !(kept > 0 && outdated_by(kept - 1)) && !(kept + 1 < choices.size() && outdated_by(kept + 1));
}

}  // namespace

TrialMaker layer_trials(const ModelFile& model, std::int64_t layer, cpu::Isa isa, std::chrono::milliseconds patience) {
  return [&model, layer, isa, patience](const std::vector<int>& cpus) -> std::unique_ptr<ThreadTrial> {
    auto trial = std::make_unique<LayerTrial>(model, layer, cpus, isa);
    return trial->warm_up(patience) ? std::move(trial) : nullptr;
  };
}

std::string load_file() {
  const char* file = std::getenv("YAMATA_LOAD_FILE");  // tests set it
  return file ? file : "/proc/loadavg";
}

bool is_busy(const std::string& file, long logical_cpus) {
  std::ifstream in(file);
  double load = 0;
  return in >> load && load > static_cast<double>(logical_cpus);
}

ThreadChoice choose_threads(const std::vector<std::vector<int>>& choices, const ThreadRecord& record, const TrialMaker& make_trial) {
  const auto kept = record.renew ? std::nullopt : read_thread_choice(record.folder, record.key, record.now_s);
  for (std::size_t i = 0; kept && i < choices.size(); ++i) {
    const bool is_it = choices[i].size() == static_cast<std::size_t>(kept->threads);
    if (is_it && still_fastest(choices, i, make_trial)) return {choices[i], kept->measured_s};
  }
  const auto best = fastest(choices, make_trial);
  if (!best) return {choices.front()};
  if (!is_busy(record.load_file, ::sysconf(_SC_NPROCESSORS_ONLN)))
    keep_thread_choice(record.folder, record.key, static_cast<int>(choices[*best].size()), record.now_s);
  return {choices[*best], record.now_s};
}

std::vector<std::string> crowded_hosts(std::span<const wire::Hello> ranks) {
  struct Host {
    int threads = 0, most_threads = 0, cpus = 0;
  };
  std::map<std::pair<std::string, std::string>, Host> hosts;  // containers may report the name of their machine
  for (const wire::Hello& rank : ranks) {
    Host& host = hosts[{rank.host, rank.cpu_group}];
    host.threads += rank.threads;
    host.most_threads = std::max<int>(host.most_threads, rank.threads);
    host.cpus = std::max<int>(host.cpus, rank.logical_cpus);
  }
  std::vector<std::string> warnings;
  for (const auto& [names, host] : hosts) {
    if (host.most_threads < 2 || host.threads <= host.cpus) continue;
    warnings.push_back(
        fmt::format("{} has {} threads on {} CPUs, where they wait for each other all the time; lower -t or leave it out, or "
                    "give fewer cores to --units and --draft-units",
                    names.first, host.threads, host.cpus));
  }
  return warnings;
}

}  // namespace yamata
