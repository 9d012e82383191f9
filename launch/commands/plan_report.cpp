#include "launch/commands/plan_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string_view>

#include "launch/program/output/report.hpp"
#include "node/mib.hpp"

namespace yamata {
namespace {

/// Hosts in the order of the ranks: the target's, then the drafter's.
std::vector<int> hosts_in_order(const LayoutCandidate& candidate) {
  std::vector<int> order = candidate.layout.front().ranks;
  if (candidate.layout.size() > 1 && !candidate.draft_on_head()) order.push_back(candidate.layout[1].ranks.front());
  return order;
}

/// A word for a shell.
std::string quoted(const std::string& word) {
  const auto plain = [](unsigned char c) {
    return std::isalnum(c) || std::string_view("_@%+=:,./-").find(static_cast<char>(c)) != std::string_view::npos;
  };
  if (!word.empty() && std::ranges::all_of(word, plain)) return word;
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

/// The target's layers of each stage: "0-3,4-7".
std::string stage_layers(const LayoutCandidate& candidate) {
  std::string text;
  for (const LayerRange stage : candidate.stages) text += (text.empty() ? "" : ",") + layers_text(stage);
  return text;
}

}  // namespace

std::string layout_flags(const LayoutCandidate& candidate) {
  std::string flags = fmt::format("--strategy {}", strategy_name(candidate.strategy));
  if (candidate.hosts() > 1) flags += fmt::format(" --layer-split {}", to_text(candidate.layout));
  if (candidate.draft_on_head() && candidate.hosts() > 1) flags += " --no-async";
  return flags;
}

std::string run_command_line(const LayoutCandidate& candidate, std::span<const PlannedHost> hosts, const PlanOptions& plan) {
  std::string names;
  for (const int host : hosts_in_order(candidate)) names += (names.empty() ? "" : ",") + hosts[static_cast<std::size_t>(host)].name;
  const bool alone = candidate.hosts() == 1;
  const std::string start = alone ? "" : fmt::format("mpirun --host {} --bind-to none ", names);
  const std::string draft = candidate.layout.size() > 1 ? " -md " + quoted(plan.draft_model) : "";
  const std::string where = alone ? "  # on " + names : "";
  const bool serves = plan.requests > 1;
  return fmt::format("{}{} {} -m {}{} {}{}{}{}", start, quoted(plan.program), serves ? "engine" : "run", quoted(plan.model), draft,
                     layout_flags(candidate), plan.job_flags, serves ? fmt::format(" --slots {}", plan.requests) : " -p TEXT", where);
}

std::string to_table(std::span<const Forecast> forecasts, std::span<const PlannedHost> hosts, int requests) {
  std::vector<std::string> layouts{"layout"}, layers{"layers"};
  for (const Forecast& f : forecasts) {
    layouts.push_back(host_names(f.candidate, hosts));
    layers.push_back(stage_layers(f.candidate));
  }
  const auto width = [](const std::vector<std::string>& cells) { return std::ranges::max(cells, {}, &std::string::size).size(); };
  const std::size_t layouts_width = width(layouts), layers_width = width(layers);
  std::string out;
  const auto add = [&](std::size_t i, const auto&... cells) {
    out += fmt::format("{:<{}}  {:<{}}  {:<11} {:>9}{} {:>7} {:>8}  {}\n", layouts[i], layouts_width, layers[i], layers_width, cells...);
  };
  const auto of_each = [&](const std::string& cell) { return requests > 1 ? fmt::format(" {:>9}", cell) : ""; };
  add(0, "strategy", "tokens/s", of_each("of each"), "TTFT s", "max MiB", "why");
  for (std::size_t i = 0; i < forecasts.size(); ++i) {
    const Forecast& f = forecasts[i];
    add(i + 1, strategy_name(f.candidate.strategy), fmt::format("{:.2f}", f.tokens_per_s),
        of_each(fmt::format("{:.2f}", f.tokens_per_s / requests)), fmt::format("{:.2f}", f.ttft_s),
        fmt::format("{:.0f}", mib(*std::ranges::max_element(f.rank_bytes))), reason(f));
  }
  return out;
}

std::string benchmark_words(std::span<const GroupCost> costs, const std::string& why_none) {
  if (costs.empty() && !why_none.empty())
    return fmt::format("no group was benchmarked, because {}: exchange times are computed from latency and rate", why_none);
  if (costs.empty())
    return "no group was benchmarked: exchange times are computed from latency and rate; give a run that chose its layout with --from";
  std::string words;
  for (const GroupCost& cost : costs) {
    words += words.empty()
                 ? fmt::format(
                       "in the group benchmark, groups of {} compute {:.2f} times as long as their speeds predict, and an exchange takes "
                       "{:.3f} ms",
                       cost.members, cost.computing, 1e-6 * static_cast<double>(cost.exchange))
                 : fmt::format(", of {} {:.2f} and {:.3f} ms", cost.members, cost.computing, 1e-6 * static_cast<double>(cost.exchange));
  }
  return words;
}

}  // namespace yamata
