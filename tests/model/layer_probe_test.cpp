// Measuring one layer.
#include "src/model/layer_probe.hpp"

#include <gtest/gtest.h>

#include "node/cpu/cpu_unit.hpp"

namespace yamata {
namespace {

TEST(LayerProbe, everyLayer_isComputedAndLeavesNoPagesOfItsFile) {
  const ModelFile model = ModelFile::open(YAMATA_SOURCE_DIR "/models/tales-target-q8_0.gguf");
  CpuUnit unit({-1, -1}, cpu::choose_isa());
  for (const std::int64_t layer : {std::int64_t{0}, std::int64_t{3}, model.h.layers - 1}) {
    LayerProbe probe(model, layer, unit);
    ASSERT_TRUE(probe.warm_up(std::chrono::minutes(1)));
    EXPECT_GT(probe.quick_check(), 0);
    EXPECT_GT(probe.measure(), 0);
    model.file.release_pages();
    EXPECT_LT(model.file.resident_bytes(), layer_bytes(model.file, model.h, layer));
  }
}

TEST(LayerProbe, WiderRun_takesLongerThanOneTokenAndLessThanEachAlone) {
  const ModelFile model = ModelFile::open(YAMATA_SOURCE_DIR "/models/tales-target-q8_0.gguf");
  CpuUnit unit({-1}, cpu::choose_isa());
  LayerProbe probe(model, 0, unit, 64);
  ASSERT_TRUE(probe.warm_up(std::chrono::minutes(1)));
  const double multiple = probe.width_multiple(64);
  EXPECT_GT(multiple, 1);
  EXPECT_LT(multiple, 128);
}

}  // namespace
}  // namespace yamata
