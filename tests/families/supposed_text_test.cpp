// Measurements suppose a text that was never computed: runs go on after it, with states and with cells.
#include <gtest/gtest.h>

#include "node/cpu/cpu_unit.hpp"
#include "src/model/model_file.hpp"
#include "src/model/transformer_stage.hpp"
#include "tests/families/tiny_model.hpp"
#include "tests/finish.hpp"
#include "tests/temporary_folder.hpp"

namespace yamata::families_test {
namespace {

TEST(SupposedText, RunsGoOnAfterIt) {
  const test::TemporaryFolder folder;
  for (const char* variant : {"qwen35", "qwen4exp", "qwen4exp-blocks", "lfm2", "granitehybrid", "nemotron_h", "llama"}) {
    const std::string path = folder / "model.gguf";
    write_tiny_model(variant, TensorType::F32, path);
    const ModelFile model = ModelFile::open(path);
    CpuUnit unit({-1}, cpu::choose_isa());
    TransformerStage stage(model.file, model.h, {0, model.h.layers}, {64, 1, CacheType::kF32}, unit);
    stage.touch_cache();
    for (const auto& [text, width] : {std::pair{40, 3}, {40, 1}, {40, 3}, {8, 2}, {0, 2}, {41, 1}}) {
      stage.suppose_text(text, {0, 1});
      EXPECT_EQ(stage.cells().end(0), text) << variant;
      std::vector<Placement> placements;
      for (int i = 0; i < width; ++i) placements.push_back({text + i, -1, {0, 1}});
      const std::vector<std::int32_t> tokens(placements.size(), 300), rows{width - 1};
      ASSERT_NO_THROW(stage.start({tokens, {}, placements, rows}, nullptr)) << variant << ", " << width << " after " << text;
      finish(unit);
      EXPECT_EQ(stage.cells().end(0), text + width) << variant;
    }
  }
}

}  // namespace
}  // namespace yamata::families_test
