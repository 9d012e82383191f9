#include "launch/commands/simulate_report.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace yamata {
namespace {

using Json = nlohmann::ordered_json;

Json figures(const SimulatedRow& r) {
  return {{"ranks", r.ranks},
          {"group", r.group},
          {"strategy", r.strategy},
          {"decode_tokens_per_s", r.tokens_per_s},
          {"ratio_to_iterative", r.ratio},
          {"prefill_s", r.prefill_s},
          {"ttft_s", r.ttft_ms / 1e3},
          {"itl_p50_s", r.itl_p50_ms / 1e3},
          {"itl_p99_s", r.itl_p99_ms / 1e3},
          {"acceptance_rate", r.acceptance},
          {"tokens_per_target_run", r.tokens_per_run},
          {"runs_started", r.runs_started},
          {"runs_cancelled", r.runs_cancelled},
          {"runs_skipped", r.runs_skipped},
          {"cancel_latency_s", r.cancel_latency_s},
          {"busy_busiest_stage", r.busiest_stage},
          {"busy_mean_stage", r.mean_stage},
          {"busy_drafter", r.drafter}};
}

}  // namespace

std::string to_table(const std::vector<SimulatedRow>& rows) {
  constexpr const char* kRow = "{:>5} {:>5}  {:<11} {:>9} {:>6} {:>9} {:>9} {:>9} {:>8} {:>10} {:>9} {:>8} {:>6} {:>8}\n";
  std::string out = fmt::format(kRow, "ranks", "group", "strategy", "tokens/s", "ratio", "TTFT ms", "p50 ms", "p99 ms", "accepted",
                                "tokens/run", "cancelled", "busiest", "mean", "drafter");
  const auto percent = [](double share) { return fmt::format("{:.0f} %", 100 * share); };
  for (const SimulatedRow& r : rows) {
    const bool guesses = r.strategy != "iterative";
    out += fmt::format(kRow, r.ranks, r.group, r.strategy, fmt::format("{:.2f}", r.tokens_per_s), fmt::format("{:.2f}", r.ratio),
                       fmt::format("{:.1f}", r.ttft_ms), fmt::format("{:.1f}", r.itl_p50_ms), fmt::format("{:.1f}", r.itl_p99_ms),
                       guesses ? percent(r.acceptance) : "-", fmt::format("{:.2f}", r.tokens_per_run),
                       fmt::format("{:.0f}/{:.0f}", r.runs_cancelled, r.runs_started), percent(r.busiest_stage), percent(r.mean_stage),
                       guesses ? percent(r.drafter) : "-");
  }
  return out;
}

std::string to_csv(const std::vector<SimulatedRow>& rows) {
  std::string text;
  for (const SimulatedRow& row : rows) {
    std::string header, line;
    const Json figure = figures(row);
    for (const auto& [key, value] : figure.items()) {
      header += (header.empty() ? "" : ",") + key;
      line += (line.empty() ? "" : ",") + (value.is_string() ? value.get<std::string>() : value.dump());
    }
    text += (text.empty() ? header + "\n" : "") + line + "\n";
  }
  return text;
}

std::string to_json(const std::vector<SimulatedRow>& rows, const SimulatedFrom& from) {
  Json j;
  for (const auto& [name, value] : from) j["from"][name] = value;
  j["results"] = Json::array();
  for (const SimulatedRow& row : rows) j["results"].push_back(figures(row));
  return j.dump(2) + "\n";
}

}  // namespace yamata
