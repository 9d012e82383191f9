#pragma once
// The time of a step of speculative decoding with a static tree: heads guess the tree, the target computes it.
#include <memory>
#include <vector>

#include "node/units/split_unit.hpp"
#include "src/draft_heads/draft_heads_file.hpp"
#include "src/model/transformer_stage.hpp"
#include "src/speculation/tree_builder.hpp"

namespace yamata {

/// The rows of a run with the tree: the root at `position`, each guess below its parent, in as many sequences, from 0 on, as it has leaves
/// below it; the root is in all of them.
std::vector<Placement> tree_placements(const StaticTree& tree, std::int32_t position);

struct TreeBenchOptions {
  int context = 0;  ///< tokens in the cache before each step
  CacheTypes cache_types;
  bool repack = true;
};

/// A whole target and its heads on one unit. What a rank does between their runs, such as the choice of tokens, is not included.
class TreeBench {
 public:
  static constexpr int kMaxWidth = 64;

  /// All parameters but `options` outlive this. Throws ModelError, such as for heads of another model.
  TreeBench(const ModelFile& target, const draft_heads::DraftHeadsFile& heads, draft_heads::MatrixType matrices, ComputeUnit& unit,
            const TreeBenchOptions& options);

  /// Seconds in which the target computes a tree of at most kMaxWidth rows, with all logits: the mean of some hundredths of a second.
  double target_s(const StaticTree& tree);
  /// Seconds in which the heads compute `text_rows` new tokens of text, and then, level by level, the guesses of the tree that have
  /// children; 0 for a tree without guesses.
  double heads_s(const StaticTree& tree, int text_rows);

 private:
  void compute(StageModel& stage, const StageBatch& batch);
  void compute_target(const StaticTree& tree);
  void compute_heads(const StaticTree& tree, int text_rows);

  const TreeBenchOptions options_;
  const std::vector<std::int32_t> feature_layers_;
  TransformerStage target_;
  const std::unique_ptr<StageModel> heads_;
};

}  // namespace yamata
