// Trees of a fixed size from heads that guess by depth (Medusa) and from other drafts: their guesses, and the number of evaluations.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>
#include <set>

#include "mpi/decoding/drafter.hpp"
#include "mpi/transport/local_transport.hpp"
#include "src/speculation/shaped_policies.hpp"
#include "tests/mpi/instant_unit.hpp"

namespace yamata {
namespace {

constexpr std::int32_t kCells = 512, kSequences = 97, kVocabulary = 16, kDepths = 4, kGuesses = 8;

using Levels = std::vector<std::vector<float>>;  // logits by depth

/// Heads whose logits depend on the last feature of the text and on the depth.
class DepthTable final : public simulation::TableStage {
 public:
  /// `by_depth`: the heads report that they guess by depth.
  DepthTable(simulation::TableShape shape, bool by_depth, const std::map<float, Levels>& texts, simulation::TableUnit& unit)
      : TableStage(std::move(shape), unit), by_depth_(by_depth), texts_(texts), depth_of_cell_(kCells) {}

  void start(const StageBatch& batch, const std::atomic<bool>* stop) override {
    cells_.place(batch.placements, placed_);
    if (!batch.features.empty()) feature_ = batch.features.back();
    std::vector<std::size_t> depths;
    for (std::size_t row = 0; row < batch.tokens.size(); ++row) {
      const auto visible = placed_.visible(row);
      depths.push_back(batch.features.empty() ? depth_of_cell_[static_cast<std::size_t>(visible[visible.size() - 2])] + 1 : 0);
      depth_of_cell_[static_cast<std::size_t>(placed_.cells()[row])] = depths.back();
    }
    rows_ += batch.logit_rows.size();
    unit_.begin(shape_, depths.size(), stop, [&](bool) {
      logits_.clear();
      for (const std::int32_t row : batch.logit_rows) {
        const std::vector<float>& level = texts_.at(feature_).at(std::min<std::size_t>(depths[static_cast<std::size_t>(row)], kDepths - 1));
        logits_.insert(logits_.end(), level.begin(), level.end());
      }
    });
  }
  std::int64_t depths() const override { return by_depth_ ? kDepths : 0; }
  std::int64_t features_read() const override { return 1; }
  std::span<const float> activations() const override { return {}; }
  std::span<const float> features() const override { return {}; }
  std::int64_t width() const override { return 1; }
  LayerRange layers() const override { return {0, 1}; }
  bool first() const override { return true; }
  bool last() const override { return true; }
  std::size_t rows() const { return rows_; }

 private:
  const bool by_depth_;
  const std::map<float, Levels>& texts_;
  std::vector<std::size_t> depth_of_cell_;
  float feature_ = 0;
  std::size_t rows_ = 0;
};

/// A text, and the heads' logits after each of its tokens; the next token is drawn from them.
struct Text {
  std::map<float, Levels> levels;
  std::vector<std::int32_t> tokens;

  explicit Text(int length) {
    std::mt19937_64 random(5);
    std::normal_distribution<float> logit(0, 2);
    for (int i = 0; i < length; ++i) {
      Levels& of_token = levels[static_cast<float>(i)];
      of_token.assign(kDepths, std::vector<float>(kVocabulary));
      for (auto& level : of_token) std::ranges::generate(level, [&] { return logit(random); });
      std::vector<float> weights(kVocabulary);
      if (i > 0)
        std::ranges::transform(levels.at(static_cast<float>(i - 1))[0], weights.begin(), [](float l) { return std::exp(l); });
      else
        std::ranges::fill(weights, 1.0f);
      tokens.push_back(std::discrete_distribution<std::int32_t>(weights.begin(), weights.end())(random));
    }
  }
};

/// A drafter on rank 1; the test plays rank 0, and keeps a tree of all guesses.
class Drafted {
 public:
  Drafted(const Text& text, const PolicyOptions& policy, bool by_depth)
      : text_(text), guesses_(policy.draft), network_(2), head_(network_, 0), transport_(network_, 1) {
    simulation::TableShape shape;
    shape.cells = kCells, shape.sequences = kSequences, shape.vocabulary = kVocabulary;
    auto model = std::make_unique<DepthTable>(shape, by_depth, text_.levels, unit_);
    model_ = model.get();
    auto pipeline = std::make_unique<Pipeline>(transport_, PipelineRanks{kDraftChannel, {{1}}}, std::move(model), kCells, kSequences);
    pipeline->stage().load();
    drafter_ = std::make_unique<Drafter>(transport_, std::move(pipeline), Drafting{.options = draft_options(policy), .context = kCells},
                                         Drafter::Sequences{.texts = {{0, kSequences}}});
  }

  /// Token `index` of the text is the last one; heads can guess from 1 on.
  void commit(std::size_t index) {
    const std::int32_t token = text_.tokens[index];
    wire::Commit commit{
        .request = 1, .epoch = index, .position = static_cast<std::int32_t>(index), .tokens = {token}, .min_drafts = guesses_};
    commit.features = {static_cast<float>(index)};
    if (index == 1) {
      commit.position = 0;
      commit.tokens = {text_.tokens[0], token};
      tree_.emplace(token, 1);
    } else {
      calibration_.learn(*tree_, token);
      tree_->prune();
      tree_->advance(token);
    }
    nodes_.clear();
    complete_ = false;
    drafter_->on_commit(commit);
    while (step()) {
    }
    while (auto message = head_.receive()) take(wire::decode_guesses(message->bytes));
  }
  bool complete() const { return complete_; }
  std::uint64_t evaluations() const { return unit_.progress() - 1; }  // all runs except the loading
  std::size_t rows() const { return model_->rows(); }
  const TokenTree& tree() const { return *tree_; }
  SourceCalibration& calibration() { return calibration_; }

 private:
  bool step() {
    const bool advanced = drafter_->advance();
    auto message = transport_.receive();
    if (message) drafter_->pipeline().on_message(std::move(*message));
    return advanced || message;
  }
  void take(const wire::Guesses& told) {
    nodes_[told.root] = tree_->root().id;
    for (const wire::Guess& guess : told.guesses)
      nodes_[guess.id] = calibration_.add(*tree_, nodes_.at(guess.parent), guess.token, guess.probability);
    complete_ |= told.complete;
  }

  const Text& text_;
  const std::int32_t guesses_;
  LocalNetwork network_;
  LocalTransport head_, transport_;
  test::InstantUnit unit_;
  DepthTable* model_ = nullptr;
  std::unique_ptr<Drafter> drafter_;
  std::optional<TokenTree> tree_;
  SourceCalibration calibration_{0};
  std::map<std::uint32_t, NodeId> nodes_;  // the drafter's ids -> nodes of tree_
  bool complete_ = false;
};

const PolicyOptions kDynamic{.name = "dynamic-tree", .draft = kGuesses, .depth = kDepths, .children = 6},
    kWide{.name = "dynamic-tree", .draft = 63, .depth = kDepths, .children = 10}, kStatic{.name = "static-tree", .draft = kGuesses};

using Paths = std::set<std::vector<std::int32_t>>;

/// The tokens of the paths to the nodes that the policy chooses.
Paths taken(const TokenTree& tree, const PolicyOptions& policy) {
  Paths paths;
  for (NodeId id : DynamicTreePolicy(policy).choose(tree, static_cast<std::size_t>(policy.draft), {})) {
    std::vector<std::int32_t> path;
    for (; id != tree.root().id; id = tree.at(id).parent) path.push_back(tree.at(id).token);
    paths.insert(path);
  }
  return paths;
}

/// The same for a tree with as many tokens after every node as the policy may choose.
Paths taken_of_all(const TokenTree& root, const Levels& levels, const SourceCalibration& learnt, const PolicyOptions& policy) {
  SourceCalibration calibration = learnt;
  TokenTree tree(root.root().token, root.root().position);
  std::vector<NodeId> level{tree.root().id};
  for (const std::vector<float>& logits : levels) {
    std::vector<NodeId> next;
    for (const NodeId id : level) {
      for (const BestChoice& choice : best_choices(logits, static_cast<std::size_t>(policy.children)))
        next.push_back(calibration.add(tree, id, choice.token, choice.probability));
    }
    level = std::move(next);
  }
  return taken(tree, policy);
}

constexpr std::size_t kTokens = 300;

TEST(DepthDrafter, DynamicTree_isThatOfTheBestGuesses_withAnEvaluationPerDepthAtMost) {
  const Text text(kTokens);
  for (const bool by_depth : {true, false}) {
    Drafted drafted(text, kDynamic, by_depth);
    for (std::size_t i = 1; i < kTokens; ++i) {
      const std::uint64_t before = drafted.evaluations();
      drafted.commit(i);
      ASSERT_TRUE(drafted.complete()) << i;
      EXPECT_EQ(taken(drafted.tree(), kDynamic),
                taken_of_all(drafted.tree(), text.levels.at(static_cast<float>(i)), drafted.calibration(), kDynamic))
          << i;
      if (by_depth) {
        EXPECT_LE(drafted.evaluations() - before, static_cast<std::uint64_t>(kDepths)) << i;
      }
    }
    if (by_depth) {
      EXPECT_EQ(drafted.rows(), drafted.evaluations()) << "a row serves all guesses that are as deep";
    }
  }
}

TEST(DepthDrafter, DynamicTreeOfMedusasSize_isFilledWithTheBestGuesses) {
  const Text text(60);
  for (const bool by_depth : {true, false}) {
    Drafted drafted(text, kWide, by_depth);
    for (std::size_t i = 1; i < text.tokens.size(); ++i) {
      drafted.commit(i);
      ASSERT_TRUE(drafted.complete()) << i;
      const Paths paths = taken(drafted.tree(), kWide);
      ASSERT_EQ(paths.size(), 63u) << i;
      EXPECT_EQ(paths, taken_of_all(drafted.tree(), text.levels.at(static_cast<float>(i)), drafted.calibration(), kWide)) << i;
    }
  }
}

TEST(DepthDrafter, DynamicTree_takesFewerEvaluationsAndRowsThanTheStaticOne) {
  const Text text(kTokens);
  for (const bool by_depth : {true, false}) {
    Drafted dynamic_tree(text, kDynamic, by_depth), static_tree(text, kStatic, by_depth);
    for (std::size_t i = 1; i < kTokens; ++i) {
      dynamic_tree.commit(i);
      static_tree.commit(i);
      ASSERT_GE(StaticTreePolicy(kStatic).choose(static_tree.tree(), kGuesses, {}).size(), 8u) << i;
    }
    EXPECT_LT(dynamic_tree.evaluations(), static_tree.evaluations()) << by_depth;
    if (by_depth) {
      EXPECT_EQ(static_tree.evaluations(), kDepths * (kTokens - 1)) << "one per level of the shape";
      EXPECT_EQ(static_tree.rows(), static_tree.evaluations());
    }
  }
}

}  // namespace
}  // namespace yamata
