#include "launch/commands/acceptance_report.hpp"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "launch/program/options/tree_file.hpp"
#include "node/counted.hpp"

namespace yamata {
namespace {

using Json = nlohmann::ordered_json;

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

/// Tokens per run by replay of trees; `trees_of`: those for a source.
template <class TreesOf>
std::string tokens_per_run(const char* title, const std::vector<SourceRates>& sources, const TreesOf& trees_of) {
  std::string out;
  for (const SourceRates& source : sources) {
    std::vector<std::string> columns, cells;
    for (const auto& [width, tree] : trees_of(source)) {
      columns.push_back(std::to_string(width));
      cells.push_back(fmt::format("{:.2f}", replay(tree, source.texts)));
    }
    if (out.empty()) out = row(title, columns);
    out += row("  " + source.name, cells);
  }
  return out;
}

using SizedTrees = std::vector<std::pair<int, StaticTree>>;

/// The greedy tree of each size.
SizedTrees greedy_trees(const SourceRates& source) {
  SizedTrees trees;
  for (const int width : kTreeWidths) trees.emplace_back(width, greedy_tree(source.accuracies(), width));
  return trees;
}

SizedTrees sized(const std::vector<StaticTree>& trees) {
  SizedTrees sized;
  for (const StaticTree& tree : trees) sized.emplace_back(tree.width(), tree);
  return sized;
}

Json replayed(const SizedTrees& trees, const std::vector<RankedText>& texts) {
  Json tokens = Json::object();
  for (const auto& [width, tree] : trees) tokens[std::to_string(width)] = replay(tree, texts);
  return tokens;
}

Json to_json(const SourceRates& source, const std::vector<StaticTree>& trees) {
  Json levels = Json::array();
  for (const LevelRates& level : source.levels) {
    levels.push_back({{"reached", level.reached},
                      {"guessed", level.guessed},
                      {"calibrated_rate", level.calibrated_rate()},
                      {"true_rate", level.true_rate()}});
  }
  Json json{{"name", source.name},
            {"levels", std::move(levels)},
            {"accuracies", source.accuracies()},
            {"tokens_per_run", replayed(greedy_trees(source), source.texts)}};
  if (!trees.empty()) json["tokens_per_run_of_trees"] = replayed(sized(trees), source.texts);
  json["ranks"] = source.texts;
  return json;
}

}  // namespace

std::string to_table(const AcceptanceReport& report) {
  std::string out = fmt::format("{}, {} of text\n\n", counted(static_cast<std::int64_t>(report.prompts), "prompt"),
                                counted(static_cast<std::int64_t>(report.positions), "token"));
  for (const SourceRates& source : report.sources) out += rates(source) + "\n";
  out += tokens_per_run("rows of a run", report.sources, greedy_trees);
  if (report.trees.empty()) return out;
  const auto given = [trees = sized(report.trees)](const SourceRates&) { return trees; };
  return out + fmt::format("\nwith the trees of {}\n", report.tree_file) + tokens_per_run("rows of a run", report.sources, given);
}

std::string to_json(const AcceptanceReport& report) {
  Json sources = Json::array();
  for (const SourceRates& source : report.sources) sources.push_back(to_json(source, report.trees));
  Json json{{"model", report.model},
            {"prompts", report.prompts},
            {"positions", report.positions},
            {"draft", report.limits.draft},
            {"children", report.limits.children}};
  if (!report.trees.empty()) json["trees_of"] = report.tree_file;
  json["sources"] = std::move(sources);
  return json.dump() + "\n";
}

}  // namespace yamata
