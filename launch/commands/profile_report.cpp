#include "launch/commands/profile_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "node/counted.hpp"
#include "node/median.hpp"
#include "node/mib.hpp"

namespace yamata {
namespace {

using Json = nlohmann::ordered_json;

Json run_json(const RunTimes& run, const ThreadCeiling& ceiling) {
  const MinTime min = min_time(run.demand, ceiling);
  return {{"width", run.width},
          {"context", run.context},
          {"bytes", run.demand.bytes},
          {"int8_ops", run.demand.byte_ops},
          {"float_ops", run.demand.float_ops},
          {"ops", run.demand.byte_ops + run.demand.float_ops},
          {"min_read_s", min.read_s},
          {"min_compute_s", min.compute_s},
          {"min_time_s", min.time_s()},
          {"time_s", run.time_s()},
          {"ratio", run.time_s() / min.time_s()},
          {"samples_s", run.samples_s}};
}

Json runs_json(const std::vector<RunTimes>& runs, const ThreadCeiling& ceiling) {
  Json all = Json::array();
  for (const RunTimes& run : runs) all.push_back(run_json(run, ceiling));
  return all;
}

std::string runs_table(const std::vector<RunTimes>& runs, const ThreadCeiling& ceiling) {
  constexpr std::size_t kBar = 24;
  constexpr const char* kRow = "{:>6} {:>8} {:>10} {:>10} {:>10} {:>10} {:>8} {:>8}  {}\n";
  std::string out = fmt::format(kRow, "tokens", "context", "MiB", "Gops", "min ms", "ms", "ratio", "bound by", "share of the ceiling");
  for (const RunTimes& run : runs) {
    const MinTime min = min_time(run.demand, ceiling);
    const double share = std::min(1.0, min.time_s() / run.time_s());
    const auto full = static_cast<std::size_t>(share * kBar + 0.5);
    out += fmt::format(kRow, run.width, run.context, fmt::format("{:.1f}", mib(run.demand.bytes)),
                       fmt::format("{:.2f}", (run.demand.byte_ops + run.demand.float_ops) / 1e9), fmt::format("{:.3f}", 1e3 * min.time_s()),
                       fmt::format("{:.3f}", 1e3 * run.time_s()), fmt::format("{:.2f}", run.time_s() / min.time_s()),
                       min.read_s > min.compute_s ? "memory" : "compute",
                       fmt::format("{}{} {:.0f} %", std::string(full, '#'), std::string(kBar - full, '.'), 100 * share));
  }
  return out;
}

std::string model_table(const ModelProfile& model, const Profile& profile) {
  const ThreadCeiling& ceiling = profile.ceilings.back();
  std::string out = fmt::format("\n{}: {}, {:.1f} MiB of weights{}, cache {}/{}, {}\n", model.file, model.type, mib(model.weights.bytes),
                                model.packed ? " (repacked)" : "", model.type_k, model.type_v, counted(ceiling.threads, "thread"));
  out += fmt::format("min ms: bytes / bandwidth or operations / peak, whichever is longer; both are equal at {:.1f} tokens\n",
                     ridge_width(model, ceiling));
  if (model.weights.bytes < static_cast<double>(profile.cache_bytes))
    out += "the weights fit into the caches, so runs may be faster than the memory bandwidth allows\n";
  out += "\nby width\n" + runs_table(model.widths, ceiling);
  if (!model.contexts.empty()) out += "\none token by context\n" + runs_table(model.contexts, ceiling);
  return out;
}

}  // namespace

ThreadCeiling median(const std::vector<ThreadCeiling>& rounds) {
  const auto of = [&](double ThreadCeiling::*number) {
    std::vector<double> found;
    for (const ThreadCeiling& round : rounds) found.push_back(round.*number);
    return median(std::move(found));
  };
  return {rounds.empty() ? 0 : rounds.front().threads, of(&ThreadCeiling::read_bytes_per_s), of(&ThreadCeiling::byte_ops_per_s),
          of(&ThreadCeiling::float_ops_per_s), of(&ThreadCeiling::barrier_s)};
}

double RunTimes::time_s() const { return median(samples_s); }

MinTime min_time(const RunDemand& demand, const ThreadCeiling& ceiling) {
  return {demand.bytes / ceiling.read_bytes_per_s, demand.byte_ops / ceiling.byte_ops_per_s + demand.float_ops / ceiling.float_ops_per_s};
}

double ridge_width(const ModelProfile& model, const ThreadCeiling& ceiling) {
  const MinTime one = min_time(model.weights, ceiling);
  return one.read_s / one.compute_s;
}

std::string to_json(const Profile& p) {
  Json j{{"version", p.version},
         {"date", p.date},
         {"machine",
          {{"host", p.host},
           {"cpu", p.cpu},
           {"cores", p.cores},
           {"numa_nodes", p.numa_nodes},
           {"numa", p.numa},
           {"isa", p.isa},
           {"last_level_cache_bytes", p.cache_bytes},
           {"available_bytes", p.available_bytes}}},
         {"rounds", p.rounds},
         {"probe_memory_bytes", p.memory_bytes}};
  j["threads"] = Json::array();
  for (const ThreadCeiling& c : p.ceilings) {
    j["threads"].push_back({{"threads", c.threads},
                            {"read_bytes_per_s", c.read_bytes_per_s},
                            {"int8_ops_per_s", c.byte_ops_per_s},
                            {"float_ops_per_s", c.float_ops_per_s},
                            {"barrier_s", c.barrier_s}});
  }
  for (const ModelProfile& m : p.models) {
    j["model"] = {{"file", m.file},
                  {"type", m.type},
                  {"weight_bytes", m.weights.bytes},
                  {"ridge_width", ridge_width(m, p.ceilings.back())},
                  {"weight_numbers", m.weight_numbers},
                  {"packed", m.packed},
                  {"type_k", m.type_k},
                  {"type_v", m.type_v},
                  {"threads", p.ceilings.back().threads}};
    j["widths"] = runs_json(m.widths, p.ceilings.back());
    j["contexts"] = runs_json(m.contexts, p.ceilings.back());
  }
  return j.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string to_table(const Profile& p) {
  constexpr const char* kRow = "{:>7} {:>12} {:>12} {:>14} {:>12}\n";
  std::string out = fmt::format("{}, {} cores, {}; bandwidth on {} MiB; {}\n\n", p.cpu, p.cores, p.isa, p.memory_bytes >> 20,
                                p.rounds == 1 ? "one round" : fmt::format("medians of {} rounds", p.rounds));
  out += fmt::format(kRow, "threads", "read GB/s", "int8 Gop/s", "float Gop/s", "barrier us");
  for (const ThreadCeiling& c : p.ceilings) {
    out += fmt::format(kRow, c.threads, fmt::format("{:.2f}", c.read_bytes_per_s / 1e9), fmt::format("{:.1f}", c.byte_ops_per_s / 1e9),
                       fmt::format("{:.1f}", c.float_ops_per_s / 1e9), fmt::format("{:.2f}", 1e6 * c.barrier_s));
  }
  for (const ModelProfile& m : p.models) out += model_table(m, p);
  return out;
}

}  // namespace yamata
