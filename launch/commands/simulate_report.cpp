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
          {"first_token_p50_s", r.first_p50_ms / 1e3},
          {"first_token_p95_s", r.first_p95_ms / 1e3},
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

std::string to_table(const std::vector<SimulatedRow>& rows, bool several) {
  const auto percent = [](double share) { return fmt::format("{:.0f} %", 100 * share); };
  const auto ms = [](double time) { return fmt::format("{:.1f}", time); };
  const auto line = [&](const auto&... cells) {
    return fmt::format("{:>5} {:>5}  {:<11} {:>9} {:>6}{} {:>8} {:>10} {:>9} {:>8} {:>6} {:>8}\n", cells...);
  };
  const std::string times = several ? " first p50 ms  p95 ms gap p50 ms  p99 ms" : "   TTFT ms    p50 ms    p99 ms";
  std::string out =
      line("ranks", "group", "strategy", "tokens/s", "ratio", times, "accepted", "tokens/run", "cancelled", "busiest", "mean", "drafter");
  for (const SimulatedRow& r : rows) {
    const bool guesses = r.strategy != "iterative";
    const std::string times =
        several ? fmt::format(" {:>12} {:>7} {:>10} {:>7}", ms(r.first_p50_ms), ms(r.first_p95_ms), ms(r.itl_p50_ms), ms(r.itl_p99_ms))
                : fmt::format(" {:>9} {:>9} {:>9}", ms(r.ttft_ms), ms(r.itl_p50_ms), ms(r.itl_p99_ms));
    out += line(r.ranks, r.group, r.strategy, fmt::format("{:.2f}", r.tokens_per_s), fmt::format("{:.2f}", r.ratio), times,
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
