#include "launch/commands/acceptance_report.hpp"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <span>

#include "node/counted.hpp"

namespace yamata {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array kTreeSizes{2, 4, 8, 16, 32, 64};

std::string percent(std::uint64_t part, std::uint64_t whole) {
  return whole > 0 ? fmt::format("{:.0f} %", 100 * static_cast<double>(part) / static_cast<double>(whole)) : "-";
}

/// A row of a table: the first cell is left-aligned, the others are right-aligned.
std::string row(const std::string& first, std::span<const std::string> cells) {
  std::string line = fmt::format("{:<18}", first);
  for (const std::string& cell : cells) line += fmt::format(" {:>10}", cell);
  return line + "\n";
}

std::string rates(const SourceRates& source) {
  std::string out =
      row(source.name, std::array<std::string, 10>{"guessed", "calibrated", "1st", "2nd", "3rd", "4th", "5th", "6th", "7th", "8th"});
  for (std::size_t l = 0; l < source.levels.size(); ++l) {
    const LevelRates& level = source.levels[l];
    if (level.guessed == 0) break;
    std::vector<std::string> cells{percent(level.guessed, level.reached), fmt::format("{:.3f}", level.calibrated_rate())};
    for (const std::uint64_t right : level.right)
      cells.push_back(fmt::format("{:.3f}", static_cast<double>(right) / static_cast<double>(level.guessed)));
    out += row(fmt::format("  {} ahead", l + 1), cells);
  }
  return out;
}

/// Tokens per run with the best tree of each size, and with the given tree.
std::string tokens_per_run(const AcceptanceReport& report) {
  std::vector<std::string> columns;
  for (const int width : kTreeSizes) columns.push_back(fmt::format("{}", width));
  if (report.tree) columns.push_back("--tree");
  std::string out = row("rows of a run", columns);
  for (const SourceRates& source : report.sources) {
    std::vector<std::string> cells;
    for (const int width : kTreeSizes)
      cells.push_back(fmt::format("{:.2f}", replay(greedy_tree(source.accuracies(), width), source.texts)));
    if (report.tree) cells.push_back(fmt::format("{:.2f}", replay(*report.tree, source.texts)));
    out += row("  " + source.name, cells);
  }
  return out;
}

Json to_json(const SourceRates& source) {
  Json levels = Json::array();
  for (const LevelRates& level : source.levels) {
    levels.push_back({{"reached", level.reached},
                      {"guessed", level.guessed},
                      {"calibrated_rate", level.calibrated_rate()},
                      {"true_rate", level.true_rate()}});
  }
  Json widths = Json::object();
  for (const int width : kTreeSizes) widths[std::to_string(width)] = replay(greedy_tree(source.accuracies(), width), source.texts);
  return {{"name", source.name},
          {"levels", std::move(levels)},
          {"accuracies", source.accuracies()},
          {"tokens_per_run", std::move(widths)},
          {"ranks", source.texts}};
}

}  // namespace

std::string to_table(const AcceptanceReport& report) {
  std::string out = fmt::format("{}, {} of text\n\n", counted(static_cast<std::int64_t>(report.prompts), "prompt"),
                                counted(static_cast<std::int64_t>(report.positions), "token"));
  for (const SourceRates& source : report.sources) out += rates(source) + "\n";
  return out + tokens_per_run(report);
}

std::string to_json(const AcceptanceReport& report) {
  Json sources = Json::array();
  for (const SourceRates& source : report.sources) sources.push_back(to_json(source));
  const Json json{{"model", report.model},        {"prompts", report.prompts},          {"positions", report.positions},
                  {"draft", report.limits.draft}, {"children", report.limits.children}, {"sources", std::move(sources)}};
  return json.dump() + "\n";
}

}  // namespace yamata
