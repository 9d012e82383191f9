// Heads as models of one stage: what a row is computed from, and which files are refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "node/cpu/cpu_unit.hpp"
#include "node/cpu/kernels/kernels.hpp"
#include "node/error.hpp"
#include "src/heads/heads_file.hpp"
#include "tests/heads/changed_heads.hpp"
#include "tests/heads/stage_run.hpp"

namespace yamata::heads {
namespace {

const std::string kModels = YAMATA_SOURCE_DIR "/models/";
const std::vector<std::int32_t> kTokens{403, 17, 2500, 90, 1111, 7, 802, 33, 5};

class HeadsTest : public ::testing::Test {
 protected:
  HeadsTest() : target_(ModelFile::open(kModels + "tales-target-q8_0.gguf")), unit_({-1, -1}, cpu::choose_isa()) {
    for (std::size_t i = 0; i < kTokens.size() * 256; ++i)
      features_.push_back(static_cast<float>(static_cast<int>(i * 37 % 101) - 50) / 40);
  }

  std::unique_ptr<StageModel> make(const std::string& file) { return make_of(kModels + file); }
  std::unique_ptr<StageModel> make_of(const std::string& path) {
    auto model =
        HeadsFile::open(path, std::nullopt)
            .make_stage(target_, {.cells = 64, .sequences = 8, .cache_types = CacheType::kF16, .pack = true, .group = {}}, true, unit_);
    model->load(nullptr);
    finish(model->unit());
    return model;
  }
  /// Logits of all rows: tokens at these places, with the features of the text's rows from `features` on, or none.
  std::vector<float> run(StageModel& model, std::span<const std::int32_t> tokens, const std::vector<Placement>& placements,
                         std::span<const float> features) {
    std::vector<std::int32_t> rows;
    for (std::size_t i = 0; i < tokens.size(); ++i) rows.push_back(static_cast<std::int32_t>(i));
    const std::span<const float> logits = logits_of(model, tokens, placements, rows, features);
    return {logits.begin(), logits.end()};
  }
  /// The text up to `end`, from `begin` on.
  std::vector<float> read_text(StageModel& model, std::size_t begin, std::size_t end) {
    std::vector<Placement> placements;
    for (std::size_t i = begin; i < end; ++i) placements.push_back({static_cast<std::int32_t>(i) + 1, -1, {0, 1}});
    return run(model, std::span(kTokens).subspan(begin, end - begin), placements,
               std::span(features_).subspan(begin * 256, (end - begin) * 256));
  }
  std::vector<float> guess(StageModel& model, std::vector<std::int32_t> tokens, const std::vector<Placement>& placements) {
    return run(model, tokens, placements, {});
  }
  static std::vector<float> row(const std::vector<float>& logits, std::size_t i) {
    return {logits.begin() + static_cast<std::ptrdiff_t>(i * 4096), logits.begin() + static_cast<std::ptrdiff_t>((i + 1) * 4096)};
  }
  /// The fault that a file is refused with; empty: it is not.
  std::string fault_of(const std::string& path, std::optional<Kind> kind = std::nullopt) {
    try {
      HeadsFile::open(path, kind).needs(target_, {}, true);
    } catch (const ModelError& e) {
      return e.what();
    }
    return "";
  }

  ModelFile target_;
  CpuUnit unit_;
  std::vector<float> features_;
};

TEST_F(HeadsTest, Kinds_followFromTheTensors) {
  EXPECT_EQ(HeadsFile::open(kModels + "tales-medusa.safetensors", std::nullopt).kind(), Kind::kMedusa);
  EXPECT_EQ(HeadsFile::open(kModels + "tales-dgf.safetensors", std::nullopt).kind(), Kind::kDgf);
  EXPECT_NE(fault_of(kModels + "tales-target-q8_0.gguf").find("unknown kind of heads"), std::string::npos);
  EXPECT_NE(fault_of(kModels + "tales-dgf.safetensors", Kind::kMedusa).find("0.0.linear.weight is missing"), std::string::npos);
  EXPECT_NE(fault_of(kModels + "tales-medusa.safetensors", Kind::kEagle3).find("fc.weight is missing"), std::string::npos);
  EXPECT_NE(fault_of(kModels + "README.md").find("README.md"), std::string::npos);
}

TEST_F(HeadsTest, Text_givesTheSameBitsHoweverItIsCut) {
  const auto whole = make("tales-dgf.safetensors"), pieces = make("tales-dgf.safetensors");
  const std::vector<float> expected = read_text(*whole, 0, kTokens.size());
  std::vector<float> all;
  for (const auto& [begin, end] : {std::pair{0, 1}, {1, 5}, {5, 7}, {7, 9}}) {
    const std::vector<float> part = read_text(*pieces, static_cast<std::size_t>(begin), static_cast<std::size_t>(end));
    all.insert(all.end(), part.begin(), part.end());
  }
  EXPECT_EQ(all, expected);
}

TEST_F(HeadsTest, Guesses_areComputedFromWhatTheirParentsLeft_onEveryBranch) {
  const auto chain = make("tales-dgf.safetensors"), tree = make("tales-dgf.safetensors");
  std::map<std::vector<std::int32_t>, std::vector<float>> alone;
  for (const std::vector<std::int32_t>& path : {std::vector<std::int32_t>{9, 10}, {9, 11}, {12, 10}}) {
    chain->cells().clear();
    read_text(*chain, 0, 4);
    alone[{path[0]}] = guess(*chain, {path[0]}, {{5, -1, {0, 1}}});
    alone[path] = guess(*chain, {path[1]}, {{6, -1, {0, 1}}});
  }
  EXPECT_NE((alone[{9, 10}]), (alone[{12, 10}]));
  chain->cells().clear();
  read_text(*chain, 0, 4);
  EXPECT_NE(alone[{9}], run(*chain, std::vector<std::int32_t>{9}, {{5, -1, {0, 1}}}, std::vector<float>(256))) << "of nothing";
  read_text(*tree, 0, 4);
  tree->cells().copy(0, {1, 4}, {0, 5});
  const std::vector<float> first = guess(*tree, {9, 12}, {{5, -1, {1, 3}}, {5, -1, {3, 4}}});
  const std::vector<float> second = guess(*tree, {10, 11, 10}, {{6, -1, {1, 2}}, {6, -1, {2, 3}}, {6, -1, {3, 4}}});
  EXPECT_EQ(row(first, 0), alone[{9}]);
  EXPECT_EQ(row(first, 1), alone[{12}]);
  EXPECT_EQ(row(second, 0), (alone[{9, 10}]));
  EXPECT_EQ(row(second, 1), (alone[{9, 11}]));
  EXPECT_EQ(row(second, 2), (alone[{12, 10}]));
}

TEST_F(HeadsTest, AcceptedGuess_isComputedAgainWithTheTargetsFeatures) {
  const auto guessed = make("tales-dgf.safetensors"), plain = make("tales-dgf.safetensors");
  read_text(*guessed, 0, 4);
  const std::vector<float> as_guess = guess(*guessed, {kTokens[4]}, {{5, -1, {0, 1}}});
  guessed->cells().remove({0, 1}, {5, kUnbounded});
  read_text(*plain, 0, 4);
  const std::vector<float> as_text = read_text(*plain, 4, 6);
  EXPECT_EQ(read_text(*guessed, 4, 6), as_text);
  EXPECT_NE(row(as_text, 0), as_guess);
}

TEST_F(HeadsTest, MedusaRow_isThatOfTheHeadForItsDepth) {
  const auto model = make("tales-medusa.safetensors");
  const std::vector<float> first = row(read_text(*model, 0, 3), 2);
  const std::vector<float> second = guess(*model, {9, 12}, {{4, -1, {0, 1}}, {4, -1, {1, 2}}});
  EXPECT_NE(row(second, 0), first);
  EXPECT_EQ(row(second, 0), guess(*model, {77}, {{4, -1, {0, 1}}})) << "whatever the guess";
  std::vector<std::vector<float>> deeper;
  for (std::int32_t position = 5; position < 9; ++position) deeper.push_back(guess(*model, {3}, {{position, -1, {0, 1}}}));
  EXPECT_NE(deeper[0], deeper[1]);
  EXPECT_EQ(deeper[3], std::vector<float>(4096)) << "the model has four heads";
  model->cells().remove({0, 2}, {4, kUnbounded});
  EXPECT_NE(row(read_text(*model, 3, 4), 0), first) << "another feature";
}

/// The target's output, once for all heads, or a copy of it for each, which is quantized to the same blocks.
TEST_F(HeadsTest, MedusaHeadsThatShareTheTargetsOutput_areComputedAtOnce_withTheSameBits) {
  test::ChangedHeads sharing(kModels + "tales-medusa.safetensors"), copying(kModels + "tales-medusa.safetensors");
  const auto is_output = [](const auto& entry) { return entry.name.ends_with(".1.weight"); };
  const gguf::Tensor& output = target_.file.tensor("output.weight");
  std::vector<float> copy(4096 * 256);
  for (std::size_t row = 0; row < 4096; ++row)
    cpu::dequantize(output.type, output.data + row * output.bytes / 4096, 256, copy.data() + row * 256);
  const auto shared = make_of(sharing.write([&](auto& entry) { return !is_output(entry); }));
  const auto copied = make_of(copying.write([&](safetensors::Entry& entry) {
    if (is_output(entry)) entry.type = "F32", entry.bytes = std::as_bytes(std::span(copy));
    return true;
  }));
  std::vector<std::vector<float>> rows{row(read_text(*shared, 0, 3), 2)};
  const std::uint64_t operations = unit_.progress();
  for (std::int32_t position = 4; position < 7; ++position) rows.push_back(guess(*shared, {9}, {{position, -1, {0, 1}}}));
  EXPECT_EQ(unit_.progress(), operations) << "nothing was left to compute";
  EXPECT_EQ(rows[0], row(read_text(*copied, 0, 3), 2));
  for (std::int32_t position = 4; position < 7; ++position)
    EXPECT_EQ(rows[static_cast<std::size_t>(position) - 3], guess(*copied, {9}, {{position, -1, {0, 1}}})) << position;
  EXPECT_NE(rows[1], rows[2]);
}

TEST_F(HeadsTest, TensorsThatDoNotFit_areNamed) {
  for (const std::string file : {"tales-medusa.safetensors", "tales-dgf.safetensors"}) {
    test::ChangedHeads heads(kModels + file);
    EXPECT_EQ(fault_of(heads.write([](auto&) { return true; })), "");
    for (const safetensors::Tensor& tensor : heads.file().tensors()) {
      const std::string fault = fault_of(heads.halve(tensor.name));
      EXPECT_NE(fault.find("another model's"), std::string::npos) << tensor.name << ": " << fault;
      EXPECT_LT(fault.size(), 400u);
    }
  }
  test::ChangedHeads dgf(kModels + "tales-dgf.safetensors");
  EXPECT_NE(fault_of(dgf.write([](const auto& entry) {
              return entry.name != "layers.1.mlp.up_proj.weight";
            })).find("layers.1.mlp.up_proj.weight is missing"),
            std::string::npos);
  test::ChangedHeads medusa(kModels + "tales-medusa.safetensors");
  EXPECT_EQ(fault_of(medusa.write([](const auto& entry) { return entry.name.find(".1.weight") == std::string::npos; })), "")
      << "the target's output serves";
}

}  // namespace
}  // namespace yamata::heads
