#include "launch/commands/tree_report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "node/counted.hpp"
#include "src/speculation/run_shape.hpp"

namespace yamata {
namespace {

using Path = std::vector<std::int32_t>;

/// [row][column]: whether the row sees the column, which is itself or before it on its path.
std::vector<std::vector<bool>> mask_of(const StaticTree& tree) {
  std::vector<std::vector<bool>> mask;
  for (std::size_t i = 0; i < tree.nodes.size(); ++i) {
    mask.push_back(i == 0 ? std::vector<bool>(tree.nodes.size()) : mask[static_cast<std::size_t>(tree.nodes[i].parent)]);
    mask.back()[i] = true;
  }
  return mask;
}

/// How many guesses there are at each depth, from 1.
std::vector<int> by_depth(const StaticTree& tree) {
  std::vector<int> counts;
  for (const StaticTree::Node& node : tree.nodes) {
    if (node.level < 0) continue;
    counts.resize(std::max(counts.size(), static_cast<std::size_t>(node.level) + 1));
    ++counts[static_cast<std::size_t>(node.level)];
  }
  return counts;
}

/// What the trees of a trace have in common.
std::string in_common(const std::vector<RunTree>& all) {
  std::map<Path, std::size_t> runs_with;
  std::size_t guesses = 0;
  for (const RunTree& one : all) {
    const std::vector<Path> paths = paths_of(one.tree);
    guesses += paths.size() - 1;
    for (std::size_t i = 1; i < paths.size(); ++i) ++runs_with[paths[i]];
  }
  const auto common = [&](double share) {
    return std::ranges::count_if(
        runs_with, [&](const auto& one) { return static_cast<double>(one.second) >= share * static_cast<double>(all.size()); });
  };
  return fmt::format("{} with guesses, {:.1f} each; paths in all of them: {}, in half of them: {}, in any: {}\n",
                     counted(static_cast<std::int64_t>(all.size()), "run"), static_cast<double>(guesses) / static_cast<double>(all.size()),
                     common(1), common(.5), runs_with.size());
}

}  // namespace

std::string to_picture(const RunTree& shown, const std::vector<RunTree>& all) {
  const std::vector<Path> paths = paths_of(shown.tree);
  const auto mask = mask_of(shown.tree);
  std::string out = shown.run > 0 ? in_common(all) + fmt::format("\nrun {}: ", shown.run) : "";
  out += fmt::format("guesses: {}; by depth {}\n\n{:>3}  {:<15}  mask\n", shown.tree.width() - 1, fmt::join(by_depth(shown.tree), ", "),
                     "row", "path");
  std::size_t visible = 0;
  for (std::size_t row = 0; row < mask.size(); ++row) {
    std::string line;
    for (std::size_t column = 0; column <= row; ++column) line += mask[row][column] ? '#' : '.';
    visible += static_cast<std::size_t>(std::ranges::count(mask[row], true));
    out += fmt::format("{:>3}  {:<15}  {}\n", row, row == 0 ? "text" : fmt::format("{}", fmt::join(paths[row], " ")), line);
  }
  const std::size_t cells = mask.size() * mask.size();
  return out + fmt::format("\n{} of {} cells of the mask are visible ({:.1f} %)\n", visible, cells,
                           100 * static_cast<double>(visible) / static_cast<double>(cells));
}

std::string to_json(const RunTree& shown) {
  const std::vector<Path> paths = paths_of(shown.tree);
  nlohmann::ordered_json json{{"rows", shown.tree.width()}, {"tree", std::vector(paths.begin() + 1, paths.end())}};
  if (shown.run > 0) json["run"] = shown.run;
  for (const std::vector<bool>& row : mask_of(shown.tree)) json["mask"].push_back(std::vector<int>(row.begin(), row.end()));
  return json.dump() + "\n";
}

}  // namespace yamata
