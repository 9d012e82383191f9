// Files of every family with damaged metadata and tables are either refused with a ModelError of one line, or run: no crash, no endless
// loop. YAMATA_DAMAGED_FILES: number of files per variant, instead of a few.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>

#include "node/cpu/cpu_unit.hpp"
#include "src/model/model_file.hpp"
#include "src/model/transformer_stage.hpp"
#include "src/tokenizer/tokenizer.hpp"
#include "tests/accepts.hpp"
#include "tests/families/tiny_model.hpp"
#include "tests/finish.hpp"
#include "tests/temporary_folder.hpp"
#include "tests/thorough.hpp"

namespace yamata::families_test {
namespace {

using Generator = std::mt19937_64;

class Damaged : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const std::string path = folder_ / "model.gguf";
    write_tiny_model(GetParam(), TensorType::F16, path);
    std::ifstream in(path, std::ios::binary);
    bytes_.assign(std::istreambuf_iterator<char>(in), {});
    const gguf::File file = parse();
    header_ = bytes_.size();
    for (const gguf::Tensor& tensor : file.tensors()) header_ = std::min(header_, offset(tensor.data));
    for (const auto& [key, value] : file.raw_metadata()) {
      if (key.starts_with(*file.string("general.architecture"))) values_.push_back({offset(value.data()), value.size()});
    }
    ASSERT_FALSE(values_.empty());
    whole_ = bytes_.substr(0, header_);
  }

  gguf::File parse() const { return gguf::File::parse(std::as_bytes(std::span(bytes_)), "model.gguf"); }
  std::size_t offset(const std::byte* at) const { return static_cast<std::size_t>(reinterpret_cast<const char*>(at) - bytes_.data()); }
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(random_() % n); }

  /// Changes a number in the family's metadata, or any byte or number before the data.
  void damage() {
    constexpr std::uint32_t kNumbers[] = {0, 1, 2, 3, 5, 7, 15, 16, 31, 33, 64, 255, 576, 1000, 1 << 14, 1 << 20, 1u << 31, UINT32_MAX};
    const std::uint32_t number = below(3) == 0 ? static_cast<std::uint32_t>(random_()) : kNumbers[below(std::size(kNumbers))];
    if (below(4) > 0) {
      const auto& [at, size] = values_[below(values_.size())];
      std::memcpy(bytes_.data() + at + 4, &number, std::min<std::size_t>(size - 4, sizeof number));  // the number follows its type
      return;
    }
    const std::size_t at = below(header_ - 4);
    if (below(2) == 0)
      bytes_[at] = static_cast<char>(bytes_[at] ^ (1 << below(8)));
    else
      std::memcpy(bytes_.data() + at, &number, sizeof number);
  }

  /// Whether the file was accepted. `runs`: also computes a few tokens.
  bool use(bool runs) {
    return test::accepts([&] {
      const gguf::File file = parse();
      Tokenizer::load(file);
      const Hyperparameters h = Hyperparameters::read(file);
      if (!runs) {
        StageWeights::find(file, h, {0, h.layers});
        return;
      }
      TransformerStage stage(file, h, {0, h.layers}, {32, 1, CacheType::kF32}, unit_);
      const std::vector<std::int32_t> tokens{1, 2, 3};
      std::vector<Placement> placements;
      for (std::int32_t i = 0; i < 3; ++i) placements.push_back({i, -1, {0, 1}});
      const std::vector<std::int32_t> rows{2};
      stage.start({tokens, {}, placements, rows}, nullptr);
      finish(unit_);
      sink_ = stage.logits()[0];
    });
  }

  test::TemporaryFolder folder_;
  CpuUnit unit_{{-1}, cpu::choose_isa()};
  Generator random_{28};
  std::string bytes_, whole_;
  std::size_t header_ = 0;
  std::vector<std::pair<std::size_t, std::size_t>> values_;  // positions of the family's metadata
  volatile float sink_ = 0;
};

TEST_P(Damaged, Files_areRefusedOrRun) {
  const char* wanted = std::getenv("YAMATA_DAMAGED_FILES");
  const int files = wanted ? std::atoi(wanted) : test::thorough() ? 300 : test::sanitized() ? 50 : 100;
  int accepted = 0;
  for (int i = 0; i < files; ++i) {
    for (std::size_t n = 1 + below(2); n > 0; --n) damage();
    accepted += use(i % 16 == 0);
    bytes_.replace(0, header_, whole_);
  }
  EXPECT_TRUE(use(true));
  // The test is only useful if some files are accepted and some refused.
  EXPECT_GT(accepted, files / 50);
  EXPECT_LT(accepted, files * 9 / 10);
}

INSTANTIATE_TEST_SUITE_P(Families, Damaged, ::testing::ValuesIn(variant_names()), [](const auto& info) {
  std::string name = info.param;
  std::ranges::replace(name, '-', '_');
  return name;
});

}  // namespace
}  // namespace yamata::families_test
