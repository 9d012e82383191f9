// The units that can compute a model.
#include "launch/program/planning/units.hpp"

#include <gtest/gtest.h>

#include "node/error.hpp"

namespace yamata {
namespace {

Hyperparameters model() {
  Hyperparameters h;
  h.heads = h.kv_heads = 4;
  h.head_dim = h.rotary_dim = 64;
  h.dim = h.ffn = h.vocabulary = 256;
  return h;
}

UnitSpec core(int cpu) { return {.name = "cpu:" + std::to_string(cpu), .cpus = {cpu}}; }
const UnitSpec kDevice{.name = "emulated:0", .cpus = {}, .share = {}, .device = true};

TEST(UnitsTest, asManyUnitsMayShareALayerAsItHasPieces) {
  const Hyperparameters h = model();
  EXPECT_NO_THROW(require_fit({core(0), core(1), core(2), kDevice}, h));
  EXPECT_THROW(require_fit({core(0), core(1), core(2), core(3), kDevice}, h), UsageError);
  EXPECT_NO_THROW(require_fit({core(0), core(1), core(2), core(3), kDevice}, h, true)) << "a device with whole layers shares none";
  EXPECT_THROW(require_fit({core(0), core(1), core(2), core(3), core(4), kDevice}, h, true), UsageError);
}

TEST(UnitsTest, aDeviceWithWholeLayers_sharesNone) {
  EXPECT_EQ(sharing_units({core(0), kDevice}, false), 2);
  EXPECT_EQ(sharing_units({core(0), kDevice}, true), 1);
  EXPECT_EQ(sharing_units({core(0), core(1), kDevice}, true), 2);
  EXPECT_EQ(sharing_units({}, true), 0);
}

TEST(UnitsTest, ranksWithoutADevice_areOneLine) {
  std::vector<wire::Hello> hellos(4);
  EXPECT_EQ(ranks_without_device(hellos), "");
  for (std::size_t rank : {0u, 1u, 3u}) hellos[rank].host = "a", hellos[rank].no_device = "no driver";
  EXPECT_EQ(ranks_without_device(hellos), "no device for ranks 0 (a), 1 (a), 3 (a): no driver; cores compute all layers there");
  hellos[3].no_device = "no CUDA";
  EXPECT_EQ(ranks_without_device(hellos),
            "no device for rank 3 (a): no CUDA; no device for ranks 0 (a), 1 (a): no driver; cores compute all layers there");
}

}  // namespace
}  // namespace yamata
