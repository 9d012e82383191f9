// Heads with matrices of their own, values that are parts of keys, and experts in groups.
#include <gtest/gtest.h>

#include <cmath>

#include "node/cpu/cpu_unit.hpp"
#ifdef YAMATA_EMULATED_DEVICE
#include "node/cuda/cuda_unit.hpp"
#include "node/cuda/emulation/emulated_device.hpp"
#endif
#include "tests/node/mixture_scene.hpp"

namespace yamata {
namespace {

constexpr std::int64_t kRows = 5, kHeads = 3, kPlain = 32, kRotary = 16, kRank = 48, kCell = kRotary + kRank, kQuery = kPlain + kRotary;

std::size_t size(std::int64_t n) { return static_cast<std::size_t>(n); }

/// Queries of kHeads heads are mapped to latent vectors, each by its head's matrix; then they are rotated and cells are stored.
struct Scene {
  std::vector<float> q = reals(size(kRows * kHeads * kQuery), 1), k = reals(size(kRows * kCell), 2),
                     angles = reals(size(kRows * kRotary), 3);
  std::vector<float> weights = reals(size(kHeads * kRank * kPlain), 4), latent = std::vector<float>(size(kRows * kHeads * kCell), 9.0f);
  std::vector<float> input = std::vector<float>(size(kHeads * kRows * kPlain)), plane = std::vector<float>(size(kRows * kCell));
  std::vector<std::byte> blocks;
  std::vector<std::int32_t> tokens, chosen, first, cells{4, 2, 0, 1, 3};
  std::vector<Matrix> matrices;
  void* cache = plane.data();
  std::vector<Op> ops;

  explicit Scene(TensorType type = TensorType::F32) {
    for (const float& weight : weights) {  // a row is a block of Q8_0
      const auto at = static_cast<std::size_t>(&weight - weights.data());
      if (at % size(kPlain) == 0) blocks.push_back(std::byte{0}), blocks.push_back(std::byte{0x2c});  // 1/16
      blocks.push_back(static_cast<std::byte>(static_cast<std::int8_t>(weight * 100)));
    }
    const TypeTraits& t = traits(type);
    const std::size_t row_bytes = size(kPlain) / t.block_elements * t.block_bytes;
    for (std::int64_t h = 0; h < kHeads; ++h) {
      first.push_back(static_cast<std::int32_t>(h * kRows));
      const std::byte* data = type == TensorType::F32 ? reinterpret_cast<const std::byte*>(weights.data()) : blocks.data();
      matrices.push_back({type, kRank, kPlain, data + size(h * kRank) * row_bytes, row_bytes});
      for (std::int32_t t = 0; t < kRows; ++t) tokens.push_back(t), chosen.push_back(static_cast<std::int32_t>(h));
    }
    first.push_back(kHeads * kRows);
    LinearOp up{.x = q.data(), .rows = kHeads * kRows, .cols = kPlain, .parts = {}, .add = false, .input = input.data()};
    up.parts[0] = {.weight = matrices.data(), .y = latent.data() + kRotary, .stride = kHeads * kCell, .y_each = kCell};
    up.x_stride = kHeads * kQuery;
    up.experts = {.experts = kHeads, .used = kHeads, .tokens = tokens.data(), .chosen = chosen.data(), .first = first.data()};
    up.x_of_tokens = true;
    up.x_each = kQuery;
    ops = {up, StoreOp{.q = latent.data(),
                       .k = k.data(),
                       .v = nullptr,
                       .rows = kRows,
                       .q_heads = kHeads,
                       .kv_heads = 1,
                       .head_dim = kCell,
                       .rotary_dim = kRotary,
                       .interleaved = true,
                       .cos_sin = angles.data(),
                       .cells = cells.data(),
                       .cache_k = &cache,
                       .cache_v = &cache,
                       .k_type = TensorType::F32,
                       .v_type = TensorType::F32,
                       .q_rotary = q.data() + kPlain,
                       .q_rotary_stride = kQuery}};
  }
};

TEST(LatentOps, Queries_areEachHeadsProduct_behindWhatRotates) {
  Scene scene;
  const std::vector<float> keys = scene.k;
  CpuUnit unit({-1}, cpu::Isa::kScalar);
  run(unit, scene.ops);
  for (std::int64_t t = 0; t < kRows; ++t) {
    for (std::int64_t h = 0; h < kHeads; ++h) {
      const float* q = scene.q.data() + (t * kHeads + h) * kQuery;
      const float* found = scene.latent.data() + (t * kHeads + h) * kCell;
      for (std::int64_t i = 0; i < kRotary; i += 2) {
        const float c = scene.angles[size(t * kRotary + i)], s = scene.angles[size(t * kRotary + i + 1)];
        EXPECT_NEAR(found[i], q[kPlain + i] * c - q[kPlain + i + 1] * s, 1e-5);
      }
      for (std::int64_t r = 0; r < kRank; ++r) {
        double sum = 0;
        for (std::int64_t i = 0; i < kPlain; ++i)
          sum += static_cast<double>(scene.weights[size((h * kRank + r) * kPlain + i)]) * static_cast<double>(q[i]);
        EXPECT_NEAR(found[kRotary + r], sum, 1e-4);
      }
    }
    for (std::int64_t i = kRotary; i < kCell; ++i)
      EXPECT_EQ(scene.plane[size(scene.cells[size(t)] * kCell + i)], keys[size(t * kCell + i)])
          << "what does not rotate is stored as it is";
  }
}

TEST(LatentOps, EveryUnit_givesTheBitsOfTheReference) {
  Scene expected;
  CpuUnit scalar({-1}, cpu::Isa::kScalar);
  run(scalar, expected.ops);
  for (const cpu::Isa isa : {cpu::Isa::kAvx2, cpu::Isa::kAvxVnni, cpu::Isa::kAvx512, cpu::Isa::kNeon, cpu::Isa::kNeonDotprod}) {
    if (!cpu::isa_usable(isa)) continue;
    for (const std::size_t threads : {1, 2, 5}) {
      Scene found;
      CpuUnit unit(std::vector<int>(threads, -1), isa);
      run(unit, found.ops);
      EXPECT_EQ(found.latent, expected.latent) << cpu::isa_name(isa) << ' ' << threads;
      EXPECT_EQ(found.plane, expected.plane) << cpu::isa_name(isa) << ' ' << threads;
    }
  }
}

#ifdef YAMATA_EMULATED_DEVICE
TEST(LatentOps, ADevice_givesTheBitsOfTheReference) {
  for (const TensorType type : {TensorType::F32, TensorType::Q8_0}) {
    Scene expected(type);
    CpuUnit scalar({-1}, cpu::Isa::kScalar);
    run(scalar, expected.ops);
    for (const bool unified : {true, false}) {
      Scene found(type);
      cuda::CudaUnit unit(std::make_unique<cuda::EmulatedDevice>(cuda::EmulatedDeviceOptions{.unified = unified}));
      run(unit, found.ops);
      EXPECT_EQ(found.latent, expected.latent) << unified;
      EXPECT_EQ(found.plane, expected.plane) << unified;
    }
  }
}
#endif

/// The chosen experts, out of six in groups of two.
std::vector<std::int32_t> chosen_of(const std::vector<float>& logits, std::int64_t groups_used) {
  ChosenExperts found(6, 2);
  CpuUnit unit({-1}, cpu::Isa::kScalar);
  run(unit, std::vector<Op>{RouterOp{.logits = logits.data(),
                                     .rows = 1,
                                     .kind = RouterKind::kSoftmaxOfChosen,
                                     .normalize = false,
                                     .groups = 3,
                                     .groups_used = groups_used,
                                     .choice = found.choice()}});
  return found.chosen;
}

TEST(RouterOp, OnlyTheBestGroupsExperts_areChosen) {
  using Chosen = std::vector<std::int32_t>;
  EXPECT_EQ(chosen_of({5, 0, 3, 3, 1, 1}, 1), (Chosen{2, 3})) << "two experts together are better than the best alone";
  EXPECT_EQ(chosen_of({5, 0, 3, 3, 1, 1}, 2), (Chosen{0, 2}));
  EXPECT_EQ(chosen_of({1, 2, 2, 1, 0, 3}, 1), (Chosen{0, 1})) << "of equal groups the first";
}

}  // namespace
}  // namespace yamata
