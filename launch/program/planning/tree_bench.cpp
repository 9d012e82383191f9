#include "launch/program/planning/tree_bench.hpp"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <utility>

namespace yamata {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr auto kShortestWindow = std::chrono::milliseconds(30);
constexpr SequenceRange kAllSequences{0, TreeBench::kMaxWidth};

template <class Work>
double mean_seconds(const Work& work) {
  work();  // not counted: the caches contain the data of other measurements
  int times = 0;
  const auto began = SteadyClock::now();
  do {
    work();
    ++times;
  } while (SteadyClock::now() - began < kShortestWindow);
  return std::chrono::duration<double>(SteadyClock::now() - began).count() / times;
}

ContextOptions cache_for(const TreeBenchOptions& options) {
  const int rows = 2 * TreeBench::kMaxWidth;  // new text and guesses
  return {options.context + rows, TreeBench::kMaxWidth, options.cache_types, options.repack};
}

/// As many different tokens as the vocabulary has.
std::vector<std::int32_t> some_tokens(std::size_t count, std::int64_t vocabulary) {
  std::vector<std::int32_t> tokens;
  for (std::size_t i = 0; i < count; ++i)
    tokens.push_back(static_cast<std::int32_t>((1 + 7919 * i) % static_cast<std::size_t>(vocabulary)));
  return tokens;
}

std::vector<std::int32_t> all_rows(std::size_t count) {
  std::vector<std::int32_t> rows(count);
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

}  // namespace

std::vector<Placement> tree_placements(const StaticTree& tree, std::int32_t position) {
  const std::size_t count = tree.nodes.size();
  std::vector<std::int32_t> leaves(count, 0), next(count, 0);  // leaves below each node; the first sequence of its next child
  for (std::size_t i = count; i-- > 0;) {
    leaves[i] = std::max(leaves[i], 1);
    if (i > 0) leaves[static_cast<std::size_t>(tree.nodes[i].parent)] += leaves[i];
  }
  std::vector<Placement> placements;
  for (std::size_t i = 0; i < count; ++i) {
    const StaticTree::Node& node = tree.nodes[i];
    std::int32_t begin = 0;
    if (node.parent >= 0)
      begin = std::exchange(next[static_cast<std::size_t>(node.parent)], next[static_cast<std::size_t>(node.parent)] + leaves[i]);
    next[i] = begin;
    placements.push_back({position + node.level + 1, node.parent, {begin, begin + leaves[i]}});
  }
  return placements;
}

TreeBench::TreeBench(const ModelFile& target, const draft_heads::DraftHeadsFile& heads, draft_heads::MatrixType matrices, ComputeUnit& unit,
                     const TreeBenchOptions& options)
    : options_(options),
      feature_layers_(heads.needs(target, cache_for(options), matrices).feature_layers),
      target_(target.file, target.h, {0, target.h.layers}, cache_for(options), unit),
      heads_(heads.make_stage(target, cache_for(options), matrices, unit)) {
  for (StageModel* stage : {static_cast<StageModel*>(&target_), heads_.get()}) {
    stage->load(nullptr);
    while (!unit.wait_for(std::chrono::milliseconds(100))) {
    }
  }
  target_.touch_cache();
}

double TreeBench::target_s(const StaticTree& tree) {
  return mean_seconds([&] { compute_target(tree); });
}

double TreeBench::heads_s(const StaticTree& tree, int text_rows) {
  return tree.width() < 2 ? 0 : mean_seconds([&] { compute_heads(tree, text_rows); });
}

void TreeBench::compute(StageModel& stage, const StageBatch& batch) {
  stage.start(batch, nullptr);
  while (!stage.unit().wait_for(std::chrono::milliseconds(100))) {
  }
}

void TreeBench::compute_target(const StaticTree& tree) {
  const std::vector<Placement> placements = tree_placements(tree, options_.context);
  const std::vector<std::int32_t> tokens = some_tokens(placements.size(), target_.vocabulary()), rows = all_rows(placements.size());
  target_.suppose_text(options_.context, kAllSequences);
  StageBatch batch{.tokens = tokens, .activations = {}, .placements = placements, .logit_rows = rows};
  batch.feature_rows = rows;
  batch.feature_layers = feature_layers_;
  compute(target_, batch);
}

void TreeBench::compute_heads(const StaticTree& tree, int text_rows) {
  heads_->suppose_text(options_.context, kAllSequences);
  std::vector<Placement> text;
  for (int row = 0; row < text_rows; ++row) text.push_back({options_.context + row, row - 1, kAllSequences});
  const std::vector<std::int32_t> last{text_rows - 1}, tokens = some_tokens(tree.nodes.size() + text.size(), heads_->vocabulary());
  const std::vector<float> features(text.size() * static_cast<std::size_t>(heads_->features_read()), 1.0f);
  compute(*heads_, {.tokens = std::span(tokens).first(text.size()),
                    .activations = {},
                    .placements = text,
                    .logit_rows = last,
                    .feature_rows = {},
                    .features = features});
  const StaticTree inner = inner_tree(tree);
  const std::vector<Placement> places = tree_placements(inner, options_.context + text_rows - 1);
  for (std::int32_t level = 0;; ++level) {
    std::vector<Placement> guesses;
    for (std::size_t i = 1; i < places.size(); ++i)
      if (inner.nodes[i].level == level) guesses.push_back({places[i].position, -1, places[i].sequences});
    if (guesses.empty()) break;
    const std::vector<std::int32_t> rows = all_rows(guesses.size());
    compute(*heads_, {.tokens = std::span(tokens).first(guesses.size()), .activations = {}, .placements = guesses, .logit_rows = rows});
  }
}

}  // namespace yamata
