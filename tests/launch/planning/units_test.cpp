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

TEST(UnitsTest, ranksThatGetNoLayerOfThoseThatFit_areALineEach) {
  std::vector<wire::Hello> hellos(3);
  for (wire::Hello& hello : hellos) hello.host = "a", hello.device = "cpu+cuda:0", hello.device_bytes = 7u << 20;
  hellos[0].device_layers = hellos[1].device_layers = wire::kLayersThatFit;
  hellos[2].device_layers = 3;
  wire::Start plan;
  plan.pipelines = {{.ranks = {0, 1, 2}, .layers = {{0, 2}, {2, 4}, {4, 6}}}};
  plan.pipelines.front().first_layers = {1, 0, 0};
  const std::vector<std::string> lines = ranks_without_layers(plan, hellos);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].find("no layer fits into the 7 MiB that the device of rank 1 (a, cpu+cuda:0) has free"), std::string::npos)
      << lines[0];
}

}  // namespace
}  // namespace yamata
