#include "launch/commands/tree_choice.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "node/counted.hpp"
#include "node/error.hpp"
#include "node/median.hpp"
#include "src/speculation/run_shape.hpp"

namespace yamata {
namespace {

static_assert(kTreeWidths.back() == TreeBench::kMaxWidth);

/// Positions that a step may take beyond the context: the deepest tree below as many new tokens.
constexpr int kStepTokens = 2 * TreeBench::kMaxWidth;

/// As --tree reads them: without the root's.
std::vector<std::vector<std::int32_t>> guess_paths(const StaticTree& tree) {
  std::vector<std::vector<std::int32_t>> paths = paths_of(tree);
  paths.erase(paths.begin());
  return paths;
}

nlohmann::ordered_json choice_json(const TreeChoice& choice) {
  return {{"width", choice.tree.width()},    {"greedy_tokens", choice.greedy_tokens},
          {"tokens", choice.tokens},         {"target_s", choice.target_s},
          {"heads_s", choice.heads_s},       {"tokens_per_s", choice.tokens_per_s()},
          {"tree", guess_paths(choice.tree)}};
}

/// The other widths, each once.
std::set<int> others_of(const std::vector<int>& widths, int width) {
  std::set<int> others(widths.begin(), widths.end());
  others.erase(width);
  return others;
}

}  // namespace

std::vector<TreeChoice> build_trees(const TreeRates& rates, const std::function<void()>& interrupted) {
  const auto choice = [&](const StaticTree& greedy) {
    TreeChoice built{.tree = refine_tree(greedy, rates.accuracies, rates.texts)};
    built.greedy_tokens = replay(greedy, rates.texts);
    built.tokens = replay(built.tree, rates.texts);
    return built;
  };
  std::vector<TreeChoice> choices{choice(greedy_tree(rates.accuracies, 1))};
  for (const int width : kTreeWidths) {
    interrupted();
    const StaticTree greedy = greedy_tree(rates.accuracies, width);
    if (greedy.width() <= choices.back().tree.width()) break;
    choices.push_back(choice(greedy));
  }
  return choices;
}

std::vector<int> measure_steps(TreeBench& bench, std::vector<TreeChoice>& choices, int rounds, const std::function<void()>& interrupted) {
  std::vector<std::vector<double>> target_s(choices.size()), heads_s(choices.size());
  std::vector<int> best_widths;
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < choices.size(); ++i) {
      TreeChoice& choice = choices[i];
      target_s[i].push_back(choice.target_s = bench.target_s(choice.tree));
      heads_s[i].push_back(choice.heads_s = bench.heads_s(choice.tree, static_cast<int>(std::lround(choice.tokens))));
      interrupted();
    }
    best_widths.push_back(best_tree(choices).tree.width());
  }
  for (std::size_t i = 0; i < choices.size(); ++i)
    choices[i].target_s = median(std::move(target_s[i])), choices[i].heads_s = median(std::move(heads_s[i]));
  return best_widths;
}

std::string disagreement(const std::vector<int>& best_widths, int best) {
  const auto agree = std::ranges::count(best_widths, best);
  if (2 * agree >= std::ssize(best_widths)) return "";
  return fmt::format(
      "only {} of {} found the tree of {} rows to be the fastest; others found {} rows: the choice is within the noise, so "
      "measure longer with -r {}, or on a quieter machine\n",
      agree, counted(std::ssize(best_widths), "round"), best, fmt::join(others_of(best_widths, best), ", "), 4 * best_widths.size());
}

const TreeChoice& best_tree(const std::vector<TreeChoice>& choices) {
  std::vector<WidthChoice> widths;
  for (const TreeChoice& choice : choices)
    if (choice.tree.width() > 1) widths.push_back({choice.tree.width(), choice.tokens, choice.target_s + choice.heads_s});
  const int best = best_width(widths);
  return *std::ranges::find_if(choices, [&](const TreeChoice& choice) { return choice.tree.width() == best; });
}

int usual_context(const Hyperparameters& h) {
  constexpr std::int64_t kContext = 256;
  return static_cast<int>(std::clamp<std::int64_t>(h.context - kStepTokens, 1, kContext));
}

void require_room_for_trees(const ProfileOptions& options, const Hyperparameters& h) {
  if (!options.contexts_given) return;
  if (options.contexts.size() != 1) throw UsageError("--contexts: with --tree-from, give one number of tokens");
  if (options.contexts.front() + kStepTokens > h.context)
    throw UsageError(fmt::format("--contexts: {} tokens and {} for a tree are beyond this model's {}; give a smaller one",
                                 options.contexts.front(), kStepTokens, h.context));
}

void warn_of_few_guesses(const TreeRates& rates, const std::string& file) {
  warn_of_few_guesses(file, rates.limits, greedy_tree(rates.accuracies, kTreeWidths.back()), kTreeWidths.back() - 1);
}

std::string to_table(const TreeReport& report) {
  constexpr const char* kRow = "{:>6} {:>14} {:>14} {:>12} {:>12} {:>12}\n";
  std::string out =
      fmt::format("trees from {}; steps with {} tokens in the cache, units {}\n\n", report.rates_file, report.context, report.units);
  out += fmt::format(kRow, "rows", "greedy tokens", "refined tokens", "target ms", "heads ms", "tokens/s");
  for (const TreeChoice& choice : report.choices)
    out += fmt::format(kRow, choice.tree.width(), fmt::format("{:.3f}", choice.greedy_tokens), fmt::format("{:.3f}", choice.tokens),
                       fmt::format("{:.3f}", 1e3 * choice.target_s), fmt::format("{:.3f}", 1e3 * choice.heads_s),
                       fmt::format("{:.1f}", choice.tokens_per_s()));
  const int widest = report.choices.back().tree.width();
  if (widest < kTreeWidths.back()) out += fmt::format("no other guess was ever right, so no tree has more than {} rows\n", widest);
  const TreeChoice& best = best_tree(report.choices);
  out += fmt::format("\nfastest tree: {} rows, {:.2f} of the speed without guesses; for --policy static-tree --tree {}\n",
                     best.tree.width(), best.tokens_per_s() / report.choices.front().tokens_per_s(), report.tree_file);
  return out + disagreement(report.best_widths, best.tree.width());
}

std::string to_json(const TreeReport& report) {
  const TreeChoice& best = best_tree(report.choices);
  nlohmann::ordered_json json{{"tree", guess_paths(best.tree)}, {"width", best.tree.width()}, {"rates", report.rates_file},
                              {"units", report.units},          {"context", report.context},  {"choices", nlohmann::ordered_json::array()}};
  for (const TreeChoice& choice : report.choices) json["choices"].push_back(choice_json(choice));
  return json.dump() + "\n";
}

}  // namespace yamata
