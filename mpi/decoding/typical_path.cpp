#include "mpi/decoding/typical_path.hpp"

#include <algorithm>
#include <utility>

namespace yamata {
namespace {

struct Path {
  std::vector<std::int32_t> tokens;  // in reverse order
  double log_probability = 0;
};

Path longest_below(NodeId id, const TokenTree& tree, const TreeRuns::Run& run, const RunResult& result, const TypicalAcceptance& rule) {
  Path best;
  const auto node = std::find(run.nodes.begin(), run.nodes.end(), id);
  if (node == run.nodes.end()) return best;  // its logits come with a later run
  const std::vector<float> logits = result.row(static_cast<std::size_t>(node - run.nodes.begin()), run.nodes.size());
  const TypicalRow row(logits, rule);
  for (const NodeId child : tree.at(id).children) {
    const std::int32_t token = tree.at(child).token;
    if (!tree.at(child).sent || !row.accepts(token)) continue;
    Path path = longest_below(child, tree, run, result, rule);
    path.tokens.push_back(token);
    path.log_probability += row.log_probability(token);
    if (best.tokens.empty() || std::pair(path.tokens.size(), path.log_probability) > std::pair(best.tokens.size(), best.log_probability))
      best = std::move(path);
  }
  return best;
}

}  // namespace

std::vector<std::int32_t> typical_path(const TokenTree& tree, const TreeRuns::Run& run, const RunResult& result,
                                       const TypicalAcceptance& rule) {
  std::vector<std::int32_t> tokens = longest_below(tree.root().id, tree, run, result, rule).tokens;
  std::reverse(tokens.begin(), tokens.end());
  return tokens;
}

}  // namespace yamata
