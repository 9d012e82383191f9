// Compares every family with llama.cpp: the same text, and the same probabilities. tests/families/expected has llama.cpp's results for the
// small models that are written here; tests/families/renew renews them.
#include <gtest/gtest.h>

#include <cmath>
#include <deque>

#include "node/cpu/cpu_unit.hpp"
#include "src/model/model_file.hpp"
#include "src/model/transformer_stage.hpp"
#include "tests/families/greedy_text.hpp"
#include "tests/families/tiny_model.hpp"
#include "tests/finish.hpp"
#include "tests/paths.hpp"
#include "tests/temporary_folder.hpp"
#include "tests/thorough.hpp"

namespace yamata::families_test {
namespace {

constexpr std::size_t kSteps = 64;
/// Of logarithms. llama.cpp computes GELU with a table of half floats, which have 11 bits.
double tolerance(const Hyperparameters& h) { return h.layer.activation == Activation::kGeluTanh ? 6e-3 : 2e-3; }

struct Case {
  std::string variant;
  TensorType type;
};

class FamilyTest : public ::testing::TestWithParam<Case> {
 protected:
  test::TemporaryFolder folder_;
  CpuUnit unit_{{-1}, cpu::choose_isa()};

  ModelFile model() {
    const std::string path = folder_ / "model.gguf";
    write_tiny_model(GetParam().variant, GetParam().type, path);
    return ModelFile::open(path);
  }

  Step step(TransformerStage& stage, std::span<const std::int32_t> tokens, std::int32_t position) {
    std::vector<Placement> placements;
    for (std::size_t i = 0; i < tokens.size(); ++i) placements.push_back({position + static_cast<std::int32_t>(i), -1, {0, 1}});
    const std::vector<std::int32_t> rows{static_cast<std::int32_t>(tokens.size()) - 1};
    stage.start({tokens, {}, placements, rows}, nullptr);
    finish(unit_);
    return greedy_step(stage.logits().data(), stage.logits().size());
  }
};

/// Whether llama.cpp picks the same cells for a token that sees so many. Of an index with blocks, it picks single cells: so many that these
/// are whole blocks and the cells after the last whole block only where all but one of a block are after that.
bool picks_the_same(const Hyperparameters& h, std::int64_t seen) {
  const std::int64_t block = h.layer.index_block;
  return block == 0 || seen % block == block - 1 || seen <= h.layer.picked;
}

TEST_P(FamilyTest, GreedyText_isThatOfLlamaCpp) {
  const ModelFile file = model();
  TransformerStage stage(file.file, file.h, {0, file.h.layers}, {256, 1, CacheType::kF32}, unit_);
  const double tolerated = tolerance(file.h);
  const char* type = GetParam().type == TensorType::F16 ? "-f16" : "-f32";
  const Text expected = read_text(test::source_path("/tests/families/expected/") + GetParam().variant + type + ".txt");
  ASSERT_EQ(expected.size(), kSteps) << "tests/families/renew asks llama.cpp";
  std::vector<std::int32_t> tokens = tiny_prompt();
  std::int32_t position = 0;
  for (std::size_t i = 0; i < kSteps; ++i) {
    const Step found = step(stage, tokens, position);
    position += static_cast<std::int32_t>(tokens.size());
    tokens = {expected[i].id};
    if (!picks_the_same(file.h, position)) continue;
    for (const auto& [id, value] : expected[i].best) {
      const auto same = std::ranges::find(found.best, id, &std::pair<std::int32_t, double>::first);
      if (same != found.best.end())
        EXPECT_NEAR(same->second, value, tolerated) << "step " << i << " token " << id;
      else
        EXPECT_NEAR(found.best.back().second, value, tolerated) << "step " << i << " token " << id << " is not among the best";
    }
    const bool near_tie = expected[i].best[0].second - expected[i].best[1].second < 2 * tolerated;
    if (near_tie && found.id != expected[i].id) break;  // from here on, the texts differ
    ASSERT_EQ(found.id, expected[i].id) << "step " << i;
  }
}

std::vector<Case> cases() {
  std::vector<Case> all;
  bool of_floats = false;  // alternates in the everyday suite, where each variant has one type
  for (const std::string& variant : variant_names()) {
    of_floats = !of_floats;
    for (const TensorType type : {TensorType::F32, TensorType::F16}) {
      const bool left_out = !test::thorough() && (type == TensorType::F32) != of_floats;
      if (!left_out) all.push_back({variant, type});
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Families, FamilyTest, ::testing::ValuesIn(cases()), [](const auto& info) {
  std::string name = info.param.variant + (info.param.type == TensorType::F16 ? "_F16" : "_F32");
  std::ranges::replace(name, '-', '_');
  return name;
});

}  // namespace
}  // namespace yamata::families_test
