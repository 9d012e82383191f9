// Files of heads with damaged headers are either refused with a ModelError of one line, or used: no crash, no endless loop.
// YAMATA_DAMAGED_FILES: number of files per kind, instead of a few.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <random>

#include "node/cpu/cpu_unit.hpp"
#include "src/draft_heads/draft_heads_file.hpp"
#include "src/safetensors/writer.hpp"
#include "tests/accepts.hpp"
#include "tests/draft_heads/stage_run.hpp"
#include "tests/families/tiny_model.hpp"
#include "tests/temporary_folder.hpp"

namespace yamata::draft_heads {
namespace {

constexpr std::int64_t kDim = 192, kVocabulary = 512, kHeadDim = 32;

/// Tensors of small heads, all of the same value.
class SmallDraftHeads {
 public:
  void add(const std::string& name, std::vector<std::int64_t> shape) {
    std::int64_t count = 1;
    for (const std::int64_t n : shape) count *= n;
    auto& bytes = data_.emplace_back(static_cast<std::size_t>(count), std::uint16_t{0x2000});  // F16: 1/128
    entries_.push_back({name, "F16", std::move(shape), std::as_bytes(std::span(bytes))});
  }
  void add_block(const std::string& name, std::int64_t inputs) {
    for (const char* part : {"q", "k", "v"}) add(name + "self_attn." + part + "_proj.weight", {*part == 'q' ? kDim : kHeadDim, inputs});
    add(name + "self_attn.o_proj.weight", {kDim, kDim});
    add(name + "post_attention_layernorm.weight", {kDim});
    for (const char* part : {"gate", "up"}) add(name + "mlp." + part + "_proj.weight", {64, kDim});
    add(name + "mlp.down_proj.weight", {kDim, 64});
  }
  std::string bytes() const {
    std::string all;
    safetensors::write(entries_, {{"rope", "interleaved"}},
                       [&](std::span<const std::byte> part) { all.append(reinterpret_cast<const char*>(part.data()), part.size()); });
    return all;
  }

 private:
  std::deque<std::vector<std::uint16_t>> data_;
  std::vector<safetensors::Entry> entries_;
};

SmallDraftHeads draft_heads_of(const std::string& kind) {
  SmallDraftHeads draft_heads;
  if (kind == "medusa") {
    for (const std::string head : {"0.", "1."}) {
      draft_heads.add(head + "0.linear.weight", {kDim, kDim});
      draft_heads.add(head + "0.linear.bias", {kDim});
    }
  } else if (kind == "dgf") {
    draft_heads.add("input_layernorm.weight", {kDim});
    for (const char* name : {"W_1", "W_2"}) draft_heads.add(name, {kDim, kDim});
    draft_heads.add("W_z", {2 * kDim, kDim});
    draft_heads.add_block("layers.0.", kDim);
  } else if (kind == "eagle") {
    draft_heads.add("fc.weight", {kDim, 2 * kDim});
    draft_heads.add_block("layers.0.", kDim);
  } else {
    draft_heads.add("fc.weight", {kDim, 3 * kDim});
    draft_heads.add("norm.weight", {kDim});
    for (const char* name : {"input_layernorm", "hidden_norm"}) draft_heads.add(std::string("midlayer.") + name + ".weight", {kDim});
    draft_heads.add_block("midlayer.", 2 * kDim);
    draft_heads.add("lm_head.weight", {kVocabulary, kDim});
  }
  return draft_heads;
}

constexpr const char* kConfig = R"({"head_dim": 32, "num_attention_heads": 6, "rms_norm_eps": 1e-05, "rope_theta": 10000.0,)"
                                R"( "eagle_aux_hidden_state_layer_ids": [0, 1, 2], "norm_before_residual": true, "draft_vocab_size": 512})";
constexpr const char* kWords[] = {"[",   "]",   "{",    "}",   "\"", ",",   ":",    "0",   "-1", "1e9", "null", "18446744073709551615",
                                  "192", "384", "4096", "F16", "Q",  "I64", "\xff", "1.5", "W_1"};

class DamagedDraftHeads : public ::testing::TestWithParam<std::string> {
 protected:
  DamagedDraftHeads() {
    const bool nextn = GetParam() == "nextn";
    families_test::write_tiny_model(nextn ? "glm4moe-nextn" : "llama", TensorType::F16, folder_ / "target.gguf");
    target_.emplace(ModelFile::open(folder_ / "target.gguf"));
    std::filesystem::create_directory(folder_ / "heads");
    path_ = nextn ? folder_ / "heads.gguf" : folder_ / "heads";
    if (nextn) {
      std::ifstream in(folder_ / "target.gguf", std::ios::binary);
      bytes_.assign(std::istreambuf_iterator<char>(in), {});
      header_ = bytes_.find("blk.0.attn_norm.weight");  // start of the table of tensors; before it are numbers
    } else {
      bytes_ = draft_heads_of(GetParam()).bytes();
    }
    write(file(), bytes_);
    write(folder_ / "heads/config.json", kConfig);
  }

  std::string file() const { return GetParam() == "nextn" ? path_ : path_ + "/model.safetensors"; }
  static void write(const std::string& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(random_() % n); }

  void damage(std::string& text) {
    const std::size_t at = below(text.size());
    const std::string word = kWords[below(std::size(kWords))];
    switch (below(4)) {
      case 0:
        text[at] = static_cast<char>(text[at] ^ (1 << below(8)));
        break;
      case 1:
        text.replace(at, std::min(word.size(), text.size() - at), word);
        break;
      case 2:
        text.insert(at, word);
        break;
      default:
        text.erase(at, 1 + below(8));
    }
    if (text.empty()) text = " ";
  }

  /// Damages the header in place, so that the tensors do not move; if it becomes shorter, it is padded with spaces.
  void damage_safetensors() {
    if (below(4) == 0) {
      std::string config = kConfig;
      damage(config);
      return write(path_ + "/config.json", config);
    }
    std::uint64_t length = 0;
    std::memcpy(&length, bytes_.data(), sizeof length);
    std::string header = bytes_.substr(sizeof length, length);
    header.erase(header.find_last_not_of(' ') + 1);
    for (std::size_t n = 1 + below(2); n > 0; --n) damage(header);
    header.resize(length, ' ');
    put(sizeof length, header);
  }
  void damage_gguf() {
    constexpr std::uint32_t kNumbers[] = {0, 1, 2, 3, 4, 5, 7, 16, 33, 64, 255, 384, 1 << 14, 1u << 31, UINT32_MAX};
    std::string header = bytes_.substr(0, kGgufHeader);
    for (std::size_t n = 1 + below(2); n > 0; --n) {
      const std::size_t key = bytes_.find("glm4moe.", below(header_ / 2));
      const std::size_t at = below(2) == 0 && key < header_ ? key + below(64) : header_ + below(kGgufHeader - header_ - 4);
      const std::uint32_t number = kNumbers[below(std::size(kNumbers))];
      if (below(2) == 0)
        header[at] = static_cast<char>(header[at] ^ (1 << below(8)));
      else
        std::memcpy(header.data() + at, &number, sizeof number);
    }
    put(0, header);
  }
  void put(std::size_t at, const std::string& bytes) {
    const int out = open(file().c_str(), O_WRONLY);
    ASSERT_EQ(pwrite(out, bytes.data(), bytes.size(), static_cast<off_t>(at)), static_cast<ssize_t>(bytes.size()));
    close(out);
  }
  void mend() {
    put(0, bytes_.substr(0, kGgufHeader));
    write(folder_ / "heads/config.json", kConfig);
  }

  /// Whether the heads were accepted. `runs`: also computes a few tokens.
  bool use(bool runs) {
    return test::accepts([&] {
      const DraftHeadsFile draft_heads = DraftHeadsFile::open(path_, std::nullopt);
      const ContextOptions context{.cells = 16, .sequences = 2, .cache_types = CacheType::kF16, .pack = true, .group = {}};
      const Needs needs = draft_heads.needs(*target_, context, TensorType::Q8_0);
      if (!runs) return;
      const auto model = draft_heads.make_stage(*target_, context, TensorType::Q8_0, unit_);
      model->load(nullptr);
      finish(unit_);
      const std::vector<float> features(needs.feature_layers.size() * kDim * 2, 0.5f);
      const std::vector<std::int32_t> tokens{300, 301}, rows{1};
      sink_ = logits_of(*model, tokens, {{1, -1, {0, 1}}, {2, -1, {0, 1}}}, rows, features)[0];
    });
  }

  static constexpr std::size_t kGgufHeader = 16384;  // also the damaged part of safetensors files
  test::TemporaryFolder folder_;
  std::optional<ModelFile> target_;
  CpuUnit unit_{{-1}, cpu::choose_isa()};
  std::mt19937_64 random_{26};
  std::string path_, bytes_;
  std::size_t header_ = 0;
  volatile float sink_ = 0;
};

TEST_P(DamagedDraftHeads, Files_areRefusedOrUsed) {
  const char* wanted = std::getenv("YAMATA_DAMAGED_FILES");
  const int files = wanted ? std::atoi(wanted) : 400;
  ASSERT_TRUE(use(true));
  int accepted = 0;
  for (int i = 0; i < files; ++i) {
    GetParam() == "nextn" ? damage_gguf() : damage_safetensors();
    accepted += use(i % 16 == 0);
    mend();
  }
  EXPECT_TRUE(use(true));
  // The test is only useful if some files are accepted and some refused.
  EXPECT_GT(accepted, files / 50);
  EXPECT_LT(accepted, files * 9 / 10);
}

/// Layers that are not named are the usual three; those that are named wrongly must not become these.
class DamagedEagle3 : public DamagedDraftHeads {};

TEST_P(DamagedEagle3, LayersThatAreNoNumbers_areRefused) {
  const auto accepts = [&](const std::string& layers) {
    write(path_ + "/config.json", R"({"eagle_aux_hidden_state_layer_ids": )" + layers + R"(, "norm_before_residual": true})");
    return use(false);
  };
  EXPECT_TRUE(accepts("[0, 1, 2]"));
  EXPECT_TRUE(accepts("null"));
  for (const char* layers : {"\"x\"", "3", "[1, 2, \"3\"]", "[0.5, 1, 2]", "[]", "[[0], 1, 2]", "true"})
    EXPECT_FALSE(accepts(layers)) << layers;
}

INSTANTIATE_TEST_SUITE_P(Kinds, DamagedEagle3, ::testing::Values("eagle3"), [](const auto& info) { return info.param; });
INSTANTIATE_TEST_SUITE_P(Kinds, DamagedDraftHeads, ::testing::Values("medusa", "dgf", "eagle", "eagle3", "nextn"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace yamata::draft_heads
