#include "launch/program/planning/plan_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "launch/program/input/input_text.hpp"
#include "launch/program/input/json_number.hpp"
#include "mpi/planning/layer_split.hpp"
#include "node/error.hpp"
#include "src/model/shard.hpp"

namespace yamata {
namespace {

using Json = nlohmann::ordered_json;
using simulation::Nanoseconds;
using simulation::NetworkOptions;

constexpr int kPlannedWidths = 17;  // number of widths in the file: beyond the widest measured width, the last increment is repeated

double milliseconds(Nanoseconds time) { return 1e-6 * static_cast<double>(time); }

void write_link(const NetworkOptions& link, Json& j) {
  j["latency_ms"] = milliseconds(link.latency);
  j["wake_up_ms"] = milliseconds(link.wake_up);
  j["mbit_per_s"] = 8e-6 * link.bytes_per_s;
}

Json json_of(const PlannedHost& host) {
  Json j{{"name", host.name}, {"ns_per_byte", host.ns_per_byte}, {"threads", host.threads}, {"free_bytes", host.free_bytes}};
  for (std::size_t rows = 1; rows <= kPlannedWidths; ++rows) j["width_multiples"].push_back(host.width(rows));
  if (host.link) write_link(*host.link, j);
  return j;
}

Json json_of(const Forecast& f, std::span<const PlannedHost> hosts) {
  return {{"hosts", host_names(f.candidate, hosts)},
          {"layer_split", to_text(f.candidate.layout)},
          {"strategy", strategy_name(f.candidate.strategy)},
          {"draft_on_head", f.candidate.draft_on_head()},
          {"decode_tokens_per_s", f.tokens_per_s},
          {"correction", f.correction},
          {"ttft_s", f.ttft_s},
          {"bytes_per_rank", f.rank_bytes},
          {"fits", f.fits},
          {"busy_busiest_stage", f.busiest_stage},
          {"busy_drafter", f.drafter_busy},
          {"exchange_share", f.exchange_share},
          {"why", reason(f)}};
}

NetworkOptions read_link(const Json& j) {
  const auto nanoseconds = [&](const char* name) { return static_cast<Nanoseconds>(std::llround(1e6 * number(j, name, 0, 1e9))); };
  NetworkOptions link;
  link.latency = nanoseconds("latency_ms");
  link.wake_up = nanoseconds("wake_up_ms");
  link.bytes_per_s = number(j, "mbit_per_s", 1e-6) * 1e6 / 8;
  return link;
}

PlannedHost read_host(const Json& j) {
  PlannedHost host{.name = j.at("name"), .ns_per_byte = number(j, "ns_per_byte", 1e-9)};
  host.threads = static_cast<int>(number(j, "threads", 1, 1e6));
  host.free_bytes = j.at("free_bytes").get<std::uint64_t>();
  const auto multiples = j.at("width_multiples").get<std::vector<double>>();
  const bool right = multiples.size() == kPlannedWidths && std::ranges::all_of(multiples, [](double m) { return m > 0 && m < 1e6; });
  if (!right) throw ModelError(fmt::format("'width_multiples' are not {} multiples", kPlannedWidths));
  host.width = simulation::WidthCost(multiples);
  if (j.contains("latency_ms")) host.link = read_link(j);
  return host;
}

PlanFile read_plan(const Json& j) {
  PlanFile plan;
  for (const Json& host : j.at("hosts")) plan.hosts.push_back(read_host(host));
  if (plan.hosts.empty()) throw ModelError("it names no host");
  plan.network = read_link(j.at("network"));
  for (const Json& group : j.at("group_benchmarks")) {
    const int members = static_cast<int>(number(group, "members", 2, 1024));
    if (!plan.group_costs.empty() && members <= plan.group_costs.back().members)
      throw ModelError("'group_benchmarks' is not in ascending order");
    plan.group_costs.push_back({members, number(group, "computing", 1e-3, 1e3),
                                static_cast<Nanoseconds>(std::llround(1e6 * number(group, "exchange_ms", 0, 1e9)))});
  }
  const Json &model = j.at("model"), &text = j.at("text");
  plan.layers = static_cast<int>(number(model, "layers", 1, 1e6));
  plan.widths = {static_cast<std::int64_t>(number(model, "width", 1)), static_cast<std::int64_t>(number(model, "vocabulary", 1))};
  plan.target_bytes = number(model, "bytes_per_token", 1);
  plan.exchange_bytes = number(model, "exchange_bytes", 1);
  if (j.contains("draft")) {
    plan.draft_bytes = number(j.at("draft"), "bytes_per_token", 1);
    plan.draft_cost = number(j.at("draft"), "cost", 1e-3, 1e3);
  }
  plan.acceptance = number(text, "acceptance", 0, 1);
  plan.acceptance4 = number(text, "acceptance4", plan.acceptance, 1);
  plan.over_confidence = number(text, "over_confidence", -0.95, 100);
  plan.prompt = static_cast<int>(number(text, "prompt_tokens", 1, 2e9));
  plan.generate = static_cast<int>(number(text, "predict", 1, 2e9));
  return plan;
}

}  // namespace

NetworkOptions PlanFile::slowest_link() const {
  std::vector<int> all(hosts.size());
  std::iota(all.begin(), all.end(), 0);
  return yamata::slowest_link(hosts, all, network);
}

std::string to_json(const PlannedJob& job, std::span<const PlannedHost> hosts, const NetworkOptions& network,
                    std::span<const Forecast> forecasts, const Forecast* chosen) {
  const Hyperparameters& h = job.target.h;
  Json j{{"model",
          {{"layers", h.layers},
           {"width", h.dim},
           {"vocabulary", h.vocabulary},
           {"bytes_per_token", token_bytes(job.target)},
           {"exchange_bytes", exchange_bytes(h)}}}};
  if (job.draft) j["draft"] = {{"bytes_per_token", token_bytes(*job.draft)}, {"cost", job.draft_cost}};
  j["text"] = {{"prompt_tokens", job.prompt},  {"predict", job.generate},        {"requests", job.requests},
               {"acceptance", job.acceptance}, {"acceptance4", job.acceptance4}, {"over_confidence", job.over_confidence}};
  j["hosts"] = Json::array();
  for (const PlannedHost& host : hosts) j["hosts"].push_back(json_of(host));
  write_link(network, j["network"]);
  j["group_benchmarks"] = Json::array();
  for (const GroupCost& cost : job.group_costs)
    j["group_benchmarks"].push_back(
        {{"members", cost.members}, {"computing", cost.computing}, {"exchange_ms", milliseconds(cost.exchange)}});
  j["layouts"] = Json::array();
  for (const Forecast& f : forecasts) j["layouts"].push_back(json_of(f, hosts));
  if (chosen) j["chosen"] = chosen - forecasts.data();
  return j.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::optional<PlanFile> read_plan_file(const std::string& path) { return parse_plan_file(read_text(path, kFromFlag), path); }

std::optional<PlanFile> parse_plan_file(const std::string& text, const std::string& path) {
  const auto j = Json::parse(text, nullptr, false);
  if (j.is_discarded()) throw ModelError(fmt::format("--from {} is not JSON; name a file that yamata wrote for --json", path));
  try {
    if (!j.is_object()) return std::nullopt;
    if (j.contains("layouts")) return read_plan(j);
    if (!j.contains("plan")) return std::nullopt;
    PlanFile plan = read_plan(j.at("plan"));
    plan.of_run = true;
    return plan;
  } catch (const nlohmann::json::exception&) {
    throw ModelError(
        fmt::format("{} has a plan of another version of yamata, or an invalid one; make a new one with 'yamata plan --json FILE'", path));
  } catch (const ModelError& error) {
    throw ModelError(fmt::format("{}: its plan: {}", path, error.what()));
  }
}

}  // namespace yamata
