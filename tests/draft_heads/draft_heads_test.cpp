// Heads as models of one stage: the inputs of their rows, and the files that are refused.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "node/cpu/kernels/kernels.hpp"
#include "node/error.hpp"
#include "src/draft_heads/own_weights.hpp"
#include "src/safetensors/writer.hpp"
#include "tests/draft_heads/changed_draft_heads.hpp"
#include "tests/draft_heads/text_run.hpp"
#include "tests/paths.hpp"
#include "tests/temporary_folder.hpp"

namespace yamata::draft_heads {
namespace {

const std::string kModels = test::source_path("/models/");
const std::vector<std::int32_t> kTokens{403, 17, 2500, 90, 1111, 7, 802, 33, 5};

class DraftHeadsTest : public ::testing::Test, protected TextRun {
 protected:
  DraftHeadsTest() : TextRun({-1, -1}, kTokens, 256, 4096), target_(ModelFile::open(kModels + "tales-target-q8_0.gguf")) {}

  std::unique_ptr<StageModel> make(const std::string& file) { return make_of(kModels + file); }
  std::unique_ptr<StageModel> make_of(const std::string& path) { return load(DraftHeadsFile::open(path, std::nullopt), target_); }
  /// The error with which a file is refused; empty: it is accepted.
  std::string fault_of(const std::string& path, std::optional<Kind> kind = std::nullopt) {
    try {
      DraftHeadsFile::open(path, kind).needs(target_, {}, TensorType::Q8_0);
    } catch (const ModelError& e) {
      return e.what();
    }
    return "";
  }

  ModelFile target_;
};

TEST_F(DraftHeadsTest, Kinds_followFromTheTensors) {
  EXPECT_EQ(DraftHeadsFile::open(kModels + "tales-medusa.safetensors", std::nullopt).kind(), Kind::kMedusa);
  EXPECT_EQ(DraftHeadsFile::open(kModels + "tales-dgf.safetensors", std::nullopt).kind(), Kind::kDgf);
  EXPECT_NE(fault_of(kModels + "tales-target-q8_0.gguf").find("is a model, not draft heads"), std::string::npos);
  EXPECT_NE(fault_of(kModels + "tales-dgf.safetensors", Kind::kMedusa).find("0.0.linear.weight is missing"), std::string::npos);
  EXPECT_NE(fault_of(kModels + "tales-medusa.safetensors", Kind::kEagle3).find("fc.weight is missing"), std::string::npos);
  EXPECT_NE(fault_of(kModels + "README.md").find("README.md"), std::string::npos);
}

TEST_F(DraftHeadsTest, TensorThatNothingReads_isNamed) {
  for (const auto& [file, optional] :
       {std::pair{"tales-medusa.safetensors", "0.0.linear.bias"}, {"tales-dgf.safetensors", "layers.1.input_layernorm.weight"}}) {
    test::ChangedDraftHeads heads(kModels + file);
    const std::string path = heads.write([optional = optional](safetensors::Entry& entry) {
      if (entry.name == optional) entry.name += "_2";
      return true;
    });
    const std::string fault = fault_of(path);
    EXPECT_NE(fault.find("_2 is not supported"), std::string::npos) << fault;
  }
}

TEST(KeptType, IsTheSmallerOfBoth_inWholeBlocks) {
  using enum TensorType;
  EXPECT_EQ(kept_type(F16, 64, Q8_0), Q8_0);
  EXPECT_EQ(kept_type(F16, 64, Q4_0), Q4_0);
  EXPECT_EQ(kept_type(F16, 64, std::nullopt), F16);
  EXPECT_EQ(kept_type(F16, 40, Q8_0), F16) << "no whole number of blocks";
  EXPECT_EQ(kept_type(Q8_0, 64, Q4_0), Q4_0);
  EXPECT_EQ(kept_type(Q4_0, 64, Q8_0), Q4_0) << "more bytes would not make it more exact";
  EXPECT_EQ(kept_type(Q4_K, 64, Q8_0), Q8_0) << "a part of a block";
  EXPECT_EQ(kept_type(Q4_K, 40, Q8_0), F16);
}

TEST(Eagle3Layers, ascendAndExist_inAModelOfAnyDepth) {  // the same table is in tests/launch/training/training_test.py
  const std::vector<std::pair<std::int64_t, std::vector<std::int32_t>>> read{{1, {0}},       {2, {0, 1}},    {3, {0, 1, 2}},
                                                                             {4, {1, 2, 3}}, {5, {1, 2, 3}}, {6, {2, 3, 4}},
                                                                             {7, {2, 3, 4}}, {8, {2, 4, 5}}, {32, {2, 16, 29}}};
  for (const auto& [layers, expected] : read) EXPECT_EQ(eagle3_layers(layers), expected) << layers;
}

TEST_F(DraftHeadsTest, Text_givesTheSameBitsHoweverItIsCut) {
  const auto whole = make("tales-dgf.safetensors"), pieces = make("tales-dgf.safetensors");
  expect_same_bits_however_cut(*whole, *pieces);
}

TEST_F(DraftHeadsTest, Guesses_areComputedFromWhatTheirParentsLeft_onEveryBranch) {
  const auto chain = make("tales-dgf.safetensors"), tree = make("tales-dgf.safetensors");
  expect_branches_as_alone(*chain, *tree, 9, 10, 11, 12);
}

TEST_F(DraftHeadsTest, AcceptedGuess_isComputedAgainWithTheTargetsFeatures) {
  const auto guessed = make("tales-dgf.safetensors"), plain = make("tales-dgf.safetensors");
  read_text(*guessed, 0, 4);
  const std::vector<float> as_guess = guess(*guessed, {kTokens[4]}, {{5, -1, {0, 1}}});
  guessed->cells().remove({0, 1}, {5, kUnbounded});
  read_text(*plain, 0, 4);
  const std::vector<float> as_text = read_text(*plain, 4, 6);
  EXPECT_EQ(read_text(*guessed, 4, 6), as_text);
  EXPECT_NE(row(as_text, 0), as_guess);
}

TEST_F(DraftHeadsTest, TwoTextsAtATime_haveTheRowsOfEachAlone) {
  for (const char* file : {"tales-medusa.safetensors", "tales-dgf.safetensors"}) {
    const auto alone = make(file), both = make(file);
    expect_two_texts_as_alone(*alone, *both);
  }
}

TEST_F(DraftHeadsTest, MedusaRow_isThatOfTheHeadForItsDepth) {
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

/// Computes the target's output matrix once for all heads, or a copy of it for each head, which is quantized to the same blocks.
TEST_F(DraftHeadsTest, MedusaHeadsThatShareTheTargetsOutput_areComputedAtOnce_withTheSameBits) {
  test::ChangedDraftHeads sharing(kModels + "tales-medusa.safetensors"), copying(kModels + "tales-medusa.safetensors");
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

TEST_F(DraftHeadsTest, FolderOfSeveralHeads_isRefused) {
  EXPECT_NE(fault_of(kModels).find("is also in another file of this folder"), std::string::npos);
}

TEST_F(DraftHeadsTest, HeadsOfTwoKinds_areRefused) {
  const test::TemporaryFolder folder;
  for (const char* file : {"tales-medusa.safetensors", "tales-dgf.safetensors"}) std::filesystem::copy(kModels + file, folder / file);
  EXPECT_NE(fault_of(folder.path()).find("has heads of two kinds, medusa and dgf; name one file"), std::string::npos);
}

TEST_F(DraftHeadsTest, FilesForTraining_areNamed) {
  const test::TemporaryFolder folder;
  const std::string path = folder / "texts.safetensors";
  const std::vector<std::byte> ids(8);
  std::ofstream out(path, std::ios::binary);
  safetensors::write({{"ids", "I32", {2}, ids}, {"texts", "I64", {1}, ids}}, {}, [&](std::span<const std::byte> bytes) {
    out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  });
  out.close();
  EXPECT_NE(fault_of(path).find("has texts for training, no draft heads; train heads with it first"), std::string::npos) << fault_of(path);
}

TEST_F(DraftHeadsTest, NumbersOfAConfig_areChecked) {
  const test::TemporaryFolder folder;
  std::filesystem::copy(kModels + "tales-dgf.safetensors", folder / "model.safetensors");
  const auto fault_with = [&](const std::string& config) {
    std::ofstream(folder / "config.json") << config;
    return fault_of(folder.path());
  };
  EXPECT_EQ(fault_with(R"({"rope_theta": 10000.0, "head_dim": null})"), "");
  EXPECT_NE(fault_with(R"({"rope_theta": "ten"})").find("rope_theta in config.json is not a number"), std::string::npos);
  EXPECT_NE(fault_with(R"({"rms_norm_eps": -1})").find("its rms_norm_eps is -1, but must not be negative"), std::string::npos);
  EXPECT_NE(fault_with(R"({"rope_theta": 0})").find("its rope_theta is 0, but must be positive"), std::string::npos);
  for (const char* heads : {"0", "-4", "2.5", "1e300"})
    EXPECT_NE(fault_with(fmt::format(R"({{"num_attention_heads": {}}})", heads)).find("must be a positive whole number"),
              std::string::npos);
  EXPECT_NE(fault_with(R"({"head_dim": 64.5})").find("its head_dim is 64.5, but must be"), std::string::npos);
}

TEST_F(DraftHeadsTest, ConfigThatIsNoFile_isRefused) {
  const test::TemporaryFolder folder;
  std::filesystem::copy(kModels + "tales-dgf.safetensors", folder / "model.safetensors");
  const auto fault = [&] {
    std::string said = fault_of(folder.path());
    std::filesystem::remove(folder / "config.json");
    return said;
  };
  const std::string expected = folder / "config.json" + " is no file; copy or download it again";
  std::filesystem::create_directory(folder / "config.json");
  EXPECT_EQ(fault(), expected);
  std::filesystem::create_symlink(folder / "absent", folder / "config.json");
  EXPECT_EQ(fault(), expected);
  ASSERT_EQ(mkfifo((folder / "config.json").c_str(), 0600), 0);
  EXPECT_EQ(fault(), expected);
  EXPECT_EQ(fault(), "") << "there is none";
}

TEST_F(DraftHeadsTest, TensorsThatDoNotFit_areNamed) {
  for (const std::string file : {"tales-medusa.safetensors", "tales-dgf.safetensors"}) {
    test::ChangedDraftHeads draft_heads(kModels + file);
    EXPECT_EQ(fault_of(draft_heads.write([](auto&) { return true; })), "");
    for (const safetensors::Tensor& tensor : draft_heads.file().tensors()) {
      const std::string fault = fault_of(draft_heads.halve(tensor.name));
      EXPECT_NE(fault.find("another model's"), std::string::npos) << tensor.name << ": " << fault;
      EXPECT_LT(fault.size(), 400u);
    }
  }
  test::ChangedDraftHeads dgf(kModels + "tales-dgf.safetensors");
  EXPECT_NE(fault_of(dgf.write([](const auto& entry) {
              return entry.name != "layers.1.mlp.up_proj.weight";
            })).find("layers.1.mlp.up_proj.weight is missing"),
            std::string::npos);
  test::ChangedDraftHeads medusa(kModels + "tales-medusa.safetensors");
  EXPECT_EQ(fault_of(medusa.write([](const auto& entry) { return entry.name.find(".1.weight") == std::string::npos; })), "")
      << "the target's output serves";
}

}  // namespace
}  // namespace yamata::draft_heads
