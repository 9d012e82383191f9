#include "launch/program/options/tree_file.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "launch/program/input/input_text.hpp"
#include "launch/program/output/warnings.hpp"
#include "node/error.hpp"

namespace yamata {
namespace {

using Path = std::vector<std::int32_t>;

constexpr std::int32_t kRanks = 64;

/// Whatever is no rank becomes -1.
Path read_path(const nlohmann::json& json) {
  Path path;
  for (const auto& rank : json.get<std::vector<nlohmann::json>>()) {
    const bool fits = rank.is_number_integer() && rank >= 0 && rank < kRanks;
    path.push_back(fits ? rank.get<std::int32_t>() : -1);
  }
  return path;
}

/// Adds the guess at the end of a path of ranks; the path without its end must be in the tree, and the whole path must be new.
void add(StaticTree& tree, const Path& path) {
  int parent = 0;
  for (std::size_t i = 0; i + 1 < path.size(); ++i) parent = parent < 0 ? parent : tree.child(parent, path[i]);
  const bool ranks = std::all_of(path.begin(), path.end(), [](std::int32_t rank) { return rank >= 0; });
  if (path.empty() || !ranks || parent < 0 || tree.child(parent, path.back()) >= 0)
    throw ModelError("each path of the tree must extend another path by a rank from 0 to 63, and must occur once");
  tree.nodes.push_back({parent, static_cast<std::int32_t>(path.size()) - 1, path.back()});
}

/// The order of the paths stays, but for children that are before their parents.
StaticTree tree_of_paths(const nlohmann::json& json) {
  StaticTree tree;
  std::vector<Path> paths;
  for (const nlohmann::json& path : json.get<std::vector<nlohmann::json>>()) paths.push_back(read_path(path));
  std::stable_sort(paths.begin(), paths.end(), [](const Path& a, const Path& b) { return a.size() < b.size(); });
  for (const Path& path : paths) add(tree, path);
  return tree;
}

GuessLimits limits_of(const nlohmann::json& json) {
  GuessLimits limits;
  limits.draft = json.value("draft", limits.draft);
  limits.children = json.value("children", limits.children);
  return limits;
}

StaticTree tree_of_rates(const nlohmann::json& json, int guesses) {
  for (const nlohmann::json& source : json.at("sources")) {
    if (source.at("name") == "all") return greedy_tree(source.at("accuracies").get<LevelAccuracies>(), guesses + 1);
  }
  return {};
}

const StaticTree& of_possible_size(const StaticTree& tree) {
  if (tree.width() < 2 || tree.width() > 65) throw ModelError(fmt::format("the tree has {} guesses, not 1 to 64", tree.width() - 1));
  return tree;
}

/// Those with guesses.
std::vector<StaticTree> trees_of_choices(const nlohmann::json& json) {
  std::vector<StaticTree> trees;
  for (const nlohmann::json& choice : json.at("choices")) {
    const nlohmann::json& paths = choice.at("tree");
    if (!paths.empty()) trees.push_back(of_possible_size(tree_of_paths(paths)));
  }
  if (trees.empty()) throw ModelError("it has no tree with guesses");
  return trees;
}

StaticTree choice_of(const nlohmann::json& json, int guesses) {
  std::vector<int> sizes;
  for (const StaticTree& tree : trees_of_choices(json)) {
    if (tree.width() == guesses + 1) return tree;
    sizes.push_back(tree.width() - 1);
  }
  throw ModelError(fmt::format("it has trees of {} guesses, but none of {}, as --draft says", fmt::join(sizes, ", "), guesses));
}

StaticTree parse(const nlohmann::json& json, int guesses, bool given) {
  return of_possible_size(given && json.contains("choices") ? choice_of(json, guesses)
                          : json.contains("tree")           ? tree_of_paths(json.at("tree"))
                                                            : tree_of_rates(json, guesses));
}

std::vector<StaticTree> parse_all(const nlohmann::json& json) {
  if (json.contains("choices")) return trees_of_choices(json);
  if (json.contains("tree")) return {parse(json, 0, false)};
  std::vector<StaticTree> trees;
  for (const int width : kTreeWidths) {
    const StaticTree tree = parse(json, width - 1, false);
    if (trees.empty() || tree.width() > trees.back().width()) trees.push_back(tree);
  }
  return trees;
}

std::vector<RunTree> parse_run_trees(const nlohmann::json& json, int guesses, bool given) {
  if (!json.contains("traceEvents")) return {{0, parse(json, guesses, given)}};
  std::vector<RunTree> trees;
  for (const nlohmann::json& one : json.value("trees", nlohmann::json::array()))
    trees.push_back({one.at("run").get<std::uint64_t>(), tree_of_paths(one.at("tree"))});
  if (trees.empty()) throw ModelError("it is a trace of runs without guesses");
  return trees;
}

/// What `parsed` makes of a file's JSON.
template <class Parsed>
auto read_json(const std::string& file, const Parsed& parsed) {
  const std::string text = read_text(file, {"--tree"});
  nlohmann::json json;
  try {
    json = nlohmann::json::parse(text);
    return parsed(json);
  } catch (const nlohmann::json::parse_error&) {
    throw ModelError(fmt::format("{} is not JSON; check --tree", file));
  } catch (const nlohmann::json::exception&) {
    if (json.contains("choices"))
      throw ModelError(fmt::format("{}: its \"choices\" are not those that yamata profile --tree-out writes; check --tree", file));
    throw ModelError(
        fmt::format("{} is not a tree of guesses: it has no \"tree\", such as {{\"tree\": [[0], [0, 0], [1]]}}, and is not a file of "
                    "yamata acceptance --json; check --tree",
                    file));
  } catch (const ModelError& e) {
    throw ModelError(fmt::format("{}: {}; check --tree", file, e.what()));
  }
}

}  // namespace

StaticTree read_tree(const std::string& file, int guesses, bool given) {
  return read_json(file, [&](const nlohmann::json& json) {
    StaticTree tree = parse(json, guesses, given);
    if (!json.contains("tree")) warn_of_few_guesses(file, limits_of(json), tree, guesses);
    return tree;
  });
}

std::vector<StaticTree> read_all_trees(const std::string& file) { return read_json(file, parse_all); }

std::vector<RunTree> read_run_trees(const std::string& file, int guesses, bool given) {
  return read_json(file, [&](const nlohmann::json& json) { return parse_run_trees(json, guesses, given); });
}

TreeRates read_rates(const std::string& file, const char* flag) {
  constexpr std::size_t kMaxMib = 256;  // the ranks of every token
  const std::string text = read_text(file, {flag, kMaxMib});
  TreeRates rates;
  try {
    const nlohmann::json json = nlohmann::json::parse(text);
    rates.limits = limits_of(json);
    for (const nlohmann::json& source : json.at("sources"))
      if (source.at("name") == "all") rates.texts = source.at("ranks").get<std::vector<RankedText>>();
  } catch (const nlohmann::json::exception&) {
    throw ModelError(fmt::format("{} is not a file of yamata acceptance --json; check {}", file, flag));
  }
  rates.accuracies = accuracies_of(rates.texts);
  if (greedy_tree(rates.accuracies, 2).width() < 2) throw ModelError(fmt::format("{}: no guess was right; check {}", file, flag));
  return rates;
}

void warn_of_few_guesses(const std::string& file, const GuessLimits& limits, const StaticTree& tree, int guesses) {
  const bool lacks_children =
      std::ranges::any_of(tree.nodes, [&](const StaticTree::Node& node) { return node.rank + 1 >= limits.children; });
  if (limits.draft < guesses || lacks_children) {
    warn(fmt::format(
        "{}: its rates are of at most {} guesses, {} after one token, so this tree of {} may not be the best; record them again "
        "with yamata acceptance --policy dynamic-tree --draft {}",
        file, limits.draft, limits.children, guesses, guesses));
  } else if (tree.width() - 1 < guesses) {
    warn(fmt::format("{}: only {} guesses were ever right, so the tree has no more, not {}; record the rates on more text", file,
                     tree.width() - 1, guesses));
  }
}

}  // namespace yamata
