// Which units a model can be computed on.
#include "launch/planning/units.hpp"

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

}  // namespace
}  // namespace yamata
