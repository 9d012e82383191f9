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

const UnitSpec kCore{.name = "cpu:0", .cpus = {0}}, kDevice{.name = "emulated:0", .cpus = {}, .share = {}, .device = true};

TEST(UnitsTest, aDeviceThatIsToComputeLatentAttentionIsRefusedByName) {
  Hyperparameters h = model();
  EXPECT_NO_THROW(require_fit({kCore, kDevice}, h));
  h.layer.latent_rank = 16;
  h.layer.plain_dim = h.layer.value_dim = 64;
  EXPECT_NO_THROW(require_fit({kCore, kDevice}, h));
  for (const std::vector<UnitSpec>& units : {std::vector{kDevice}, std::vector{kDevice, kCore}}) {
    try {
      require_fit(units, h);
      FAIL() << "a device computes latent attention";
    } catch (const UsageError& error) {
      EXPECT_EQ(std::string(error.what()).rfind("--units: emulated:0: latent attention", 0), 0u) << error.what();
    }
  }
}

}  // namespace
}  // namespace yamata
