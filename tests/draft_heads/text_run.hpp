#pragma once
// Common parts of tests of heads that read a text.
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "node/cpu/cpu_unit.hpp"
#include "src/draft_heads/draft_heads_file.hpp"
#include "src/model/model_file.hpp"
#include "tests/draft_heads/stage_run.hpp"

namespace yamata::draft_heads {

class TextRun {
 protected:
  /// `tokens`: the text; `features`: floats per token.
  TextRun(const std::vector<int>& cpus, std::vector<std::int32_t> tokens, std::size_t features, std::size_t vocabulary)
      : unit_(cpus, cpu::choose_isa()), tokens_(std::move(tokens)), width_(features), vocabulary_(vocabulary) {
    for (std::size_t i = 0; i < tokens_.size() * width_; ++i)
      features_.push_back(static_cast<float>(static_cast<int>(i * 37 % 101) - 50) / 40);
  }

  std::unique_ptr<StageModel> load(const DraftHeadsFile& draft_heads, const ModelFile& target, bool packed = true) {
    auto model = draft_heads.make_stage(target, {.cells = 64, .sequences = 8, .cache_types = CacheType::kF16, .pack = packed, .group = {}},
                                        TensorType::Q8_0, unit_);
    model->load(nullptr);
    finish(model->unit());
    return model;
  }
  /// Logits of all rows: tokens with these placements, and the features of the text's rows from `features` on, or none.
  static std::vector<float> run(StageModel& model, std::span<const std::int32_t> tokens, const std::vector<Placement>& placements,
                                std::span<const float> features) {
    std::vector<std::int32_t> rows;
    for (std::size_t i = 0; i < tokens.size(); ++i) rows.push_back(static_cast<std::int32_t>(i));
    const std::span<const float> logits = logits_of(model, tokens, placements, rows, features);
    return {logits.begin(), logits.end()};
  }
  /// Reads the text from `begin` to `end`.
  std::vector<float> read_text(StageModel& model, std::size_t begin, std::size_t end) const {
    std::vector<Placement> placements;
    for (std::size_t i = begin; i < end; ++i) placements.push_back({static_cast<std::int32_t>(i) + 1, -1, {0, 1}});
    return run(model, std::span(tokens_).subspan(begin, end - begin), placements,
               std::span(features_).subspan(begin * width_, (end - begin) * width_));
  }
  std::vector<float> guess(StageModel& model, std::vector<std::int32_t> tokens, const std::vector<Placement>& placements) const {
    return run(model, tokens, placements, {});
  }
  std::vector<float> row(const std::vector<float>& logits, std::size_t i) const {
    const auto at = logits.begin() + static_cast<std::ptrdiff_t>(i * vocabulary_);
    return {at, at + static_cast<std::ptrdiff_t>(vocabulary_)};
  }

  /// Nine tokens in four runs give the same bits as in one run.
  void expect_same_bits_however_cut(StageModel& whole, StageModel& pieces) const {
    const std::vector<float> expected = read_text(whole, 0, 9);
    std::vector<float> all;
    for (const auto& [begin, end] : {std::pair{0, 1}, {1, 5}, {5, 7}, {7, 9}}) {
      const std::vector<float> part = read_text(pieces, static_cast<std::size_t>(begin), static_cast<std::size_t>(end));
      all.insert(all.end(), part.begin(), part.end());
    }
    EXPECT_EQ(all, expected);
  }
  /// After four tokens of the text: a and then b or c, and d and then b. A tree of guesses must give the same as each path alone.
  void expect_branches_as_alone(StageModel& chain, StageModel& tree, std::int32_t a, std::int32_t b, std::int32_t c, std::int32_t d) const {
    std::map<std::vector<std::int32_t>, std::vector<float>> alone;
    for (const std::vector<std::int32_t>& path : {std::vector<std::int32_t>{a, b}, {a, c}, {d, b}}) {
      chain.cells().clear();
      read_text(chain, 0, 4);
      alone[{path[0]}] = guess(chain, {path[0]}, {{5, -1, {0, 1}}});
      alone[path] = guess(chain, {path[1]}, {{6, -1, {0, 1}}});
    }
    EXPECT_NE((alone[{a, b}]), (alone[{d, b}]));
    chain.cells().clear();
    read_text(chain, 0, 4);
    EXPECT_NE(alone[{a}], run(chain, std::vector<std::int32_t>{a}, {{5, -1, {0, 1}}}, std::vector<float>(width_))) << "of nothing";
    read_text(tree, 0, 4);
    tree.cells().copy(0, {1, 4}, {0, 5});
    const std::vector<float> first = guess(tree, {a, d}, {{5, -1, {1, 3}}, {5, -1, {3, 4}}});
    const std::vector<float> second = guess(tree, {b, c, b}, {{6, -1, {1, 2}}, {6, -1, {2, 3}}, {6, -1, {3, 4}}});
    EXPECT_EQ(row(first, 0), alone[{a}]);
    EXPECT_EQ(row(first, 1), alone[{d}]);
    EXPECT_EQ(row(second, 0), (alone[{a, b}]));
    EXPECT_EQ(row(second, 1), (alone[{a, c}]));
    EXPECT_EQ(row(second, 2), (alone[{d, b}]));
  }

  /// The text and another one of other features, whose last tokens and guesses come in common runs, have the rows of each alone; then one
  /// grows, and the other has more guesses.
  void expect_two_texts_as_alone(StageModel& alone, StageModel& both) const {
    const std::vector<float> other(features_.rbegin(), features_.rend());
    const auto features = [&](bool second, std::size_t at) { return std::span(second ? other : features_).subspan(at * width_, width_); };
    const auto place = [](std::int32_t position, bool second) { return Placement{position, -1, {second ? 4 : 0, second ? 5 : 1}}; };
    const auto one_alone = [&](bool second) {
      alone.cells().clear();
      std::vector<std::vector<float>> rows;
      for (std::size_t at = 0; at < 2; ++at)
        rows.push_back(
            run(alone, std::span(tokens_).subspan(at, 1), {place(static_cast<std::int32_t>(at) + 1, second)}, features(second, at)));
      rows.push_back(guess(alone, {9}, {place(3, second)}));
      rows.push_back(guess(alone, {10}, {place(4, second)}));
      return rows;
    };
    const std::vector<std::vector<float>> a = one_alone(false), b = one_alone(true);
    for (std::size_t at = 0; at < 2; ++at) {
      std::vector<float> joined(features(false, at).begin(), features(false, at).end());
      joined.insert(joined.end(), features(true, at).begin(), features(true, at).end());
      const auto position = static_cast<std::int32_t>(at) + 1;
      const std::vector<float> roots =
          run(both, std::vector{tokens_[at], tokens_[at]}, {place(position, false), place(position, true)}, joined);
      EXPECT_EQ(row(roots, 0), a[at]);
      EXPECT_EQ(row(roots, 1), b[at]);
    }
    const std::vector<float> guesses = guess(both, {9, 9}, {place(3, false), place(3, true)});
    EXPECT_EQ(row(guesses, 0), a[2]);
    EXPECT_EQ(row(guesses, 1), b[2]);
    both.cells().remove({0, 1}, {3, kUnbounded});
    run(both, std::span(tokens_).subspan(2, 1), {place(3, false)}, features(false, 2));
    EXPECT_EQ(guess(both, {10}, {place(4, true)}), b[3]) << "the other text has grown meanwhile";
  }

  CpuUnit unit_;
  const std::vector<std::int32_t> tokens_;
  const std::size_t width_, vocabulary_;
  std::vector<float> features_;
};

}  // namespace yamata::draft_heads
