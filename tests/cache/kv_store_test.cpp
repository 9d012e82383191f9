#include "cache/kv_store.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "node/cpu/cpu_unit.hpp"
#include "node/error.hpp"
#include "node/topology.hpp"
#include "tests/node/little_memory.hpp"

namespace yamata {
namespace {

CpuUnit unit({-1}, cpu::Isa::kScalar);

constexpr int kLayers = 3, kHeads = 2, kHeadDim = 32, kCells = 5;

struct Case {
  const char* name;
  CacheTypes types;
  std::size_t k_cell, v_cell;  // bytes
};

class KvStoreOf : public testing::TestWithParam<Case> {
 protected:
  KvStore store() const { return {unit, {kLayers, kHeads, kHeadDim}, kCells, GetParam().types}; }
};

TEST_P(KvStoreOf, Planes_lieApartAndFillTheStore) {
  const KvStore store = this->store();
  EXPECT_EQ(store.types(), GetParam().types);
  std::vector<std::pair<unsigned char*, std::size_t>> planes;
  std::size_t all = 0;
  for (int layer = 0; layer < kLayers; ++layer) {
    for (int head = 0; head < kHeads; ++head) {
      planes.emplace_back(static_cast<unsigned char*>(store.k(layer, head)), kCells * GetParam().k_cell);
      planes.emplace_back(static_cast<unsigned char*>(store.v(layer, head)), kCells * GetParam().v_cell);
      all += kCells * (GetParam().k_cell + GetParam().v_cell);
    }
  }
  EXPECT_EQ(store.bytes(), all);
  EXPECT_EQ(store.bytes(), KvStore::bytes_for({kLayers, kHeads, kHeadDim}, kCells, GetParam().types));
  for (std::size_t i = 0; i < planes.size(); ++i) std::memset(planes[i].first, static_cast<int>(i + 1), planes[i].second);
  for (std::size_t i = 0; i < planes.size(); ++i) {
    const auto [plane, bytes] = planes[i];
    EXPECT_EQ(std::count(plane, plane + bytes, i + 1), static_cast<std::ptrdiff_t>(bytes)) << "plane " << i;
  }
  const auto [first, last] = std::minmax_element(planes.begin(), planes.end());
  EXPECT_EQ(static_cast<std::size_t>(last->first - first->first) + last->second, store.bytes());
}

TEST(KvStore, LayersWithUnequalCells_lieBehindEachOther) {
  const CacheShape shape{1, 2, kHeadDim};
  const KvStore store(unit, {{shape, 5}, {shape, 2}, {shape, 5}}, CacheTypes(CacheType::kF16, CacheType::kF32));
  const auto at = [&](const void* plane) { return static_cast<const std::byte*>(plane) - static_cast<const std::byte*>(store.k(0, 0)); };
  constexpr std::ptrdiff_t kK = 2 * kHeadDim, kV = 4 * kHeadDim;
  EXPECT_EQ(at(store.v(0, 1)), 5 * (2 * kK + kV));
  EXPECT_EQ(at(store.k(1, 0)), 10 * (kK + kV));
  EXPECT_EQ(at(store.v(1, 1)), 10 * (kK + kV) + 2 * (2 * kK + kV));
  EXPECT_EQ(at(store.k(2, 1)), 14 * (kK + kV) + 5 * (kK + kV));
  EXPECT_EQ(store.bytes(), static_cast<std::size_t>(24 * (kK + kV)));
}

TEST(KvStore, LayersOfUnequalShapes_lieBehindEachOther) {
  const KvStore store(unit, {{{1, 2, kHeadDim}, 5}, {{1, 1, 2 * kHeadDim}, 3}}, CacheType::kF16);
  const auto at = [&](const void* plane) { return static_cast<const std::byte*>(plane) - static_cast<const std::byte*>(store.k(0, 0)); };
  EXPECT_EQ(at(store.k(1, 0)), 2 * 2 * 5 * 2 * kHeadDim);
  EXPECT_EQ(at(store.v(1, 0)), at(store.k(1, 0)) + 3 * 2 * 2 * kHeadDim);
  EXPECT_EQ(store.bytes(), static_cast<std::size_t>(at(store.v(1, 0)) + 3 * 2 * 2 * kHeadDim));
}

TEST_P(KvStoreOf, New_isZero) {
  const KvStore store = this->store();
  const auto* bytes = static_cast<const unsigned char*>(store.k(0, 0));
  EXPECT_EQ(std::count(bytes, bytes + store.bytes(), 0), static_cast<std::ptrdiff_t>(store.bytes()));
}

INSTANTIATE_TEST_SUITE_P(Types, KvStoreOf,
                         testing::Values(Case{"F16", CacheType::kF16, 64, 64}, Case{"F32", CacheType::kF32, 128, 128},
                                         Case{"Q8", CacheType::kQ8_0, 34, 34},
                                         Case{"Q8AndF16", {CacheType::kQ8_0, CacheType::kF16}, 34, 64}),
                         [](const auto& info) { return info.param.name; });

TEST(KvStore, Q8OfHeadsThatAreNotWholeBlocks_isRefusedWithARemedy) {
  for (const CacheTypes types : {CacheTypes{CacheType::kQ8_0}, {CacheType::kF16, CacheType::kQ8_0}, {CacheType::kQ8_0, CacheType::kF16}}) {
    EXPECT_NO_THROW(require_storable(types, 96));
    try {
      const KvStore store(unit, {1, 1, 80}, 1, types);
      ADD_FAILURE() << "a store of " << store.bytes() << " bytes was made";
    } catch (const UsageError& error) {
      EXPECT_NE(std::string(error.what()).find("have 80; use --cache-type f16"), std::string::npos) << error.what();
    }
  }
  EXPECT_NO_THROW(require_storable(CacheType::kF32, 80));
}

TEST(KvStore, BytesFor_countsKeysAndValuesWithoutOverflow) {
  EXPECT_EQ(KvStore::bytes_for({1, 1, 16}, 1, CacheType::kF16), 64u);
  EXPECT_EQ(KvStore::bytes_for({1, 1, 16}, 1, CacheType::kF32), 128u);
  EXPECT_EQ(KvStore::bytes_for({1, 1, 64}, 1, CacheType::kQ8_0), 136u);
  EXPECT_EQ(KvStore::bytes_for({80, 8, 128}, 1 << 20, CacheType::kF16), 2ull * 80 * 8 * 128 * (1 << 20) * 2);
  EXPECT_EQ(KvStore::bytes_for({2, 1, 96, false}, 10, CacheTypes(CacheType::kF16, CacheType::kF32)), 2u * 96 * 10 * 2);
}

TEST(KvStore, PagesNotWritten_takeNoMemory) {
  constexpr std::size_t kSmall = 32 << 20;
  const std::size_t before = own_memory_bytes();
  const KvStore store(unit, {8, 8, 128}, 1 << 14, CacheType::kF16);
  ASSERT_EQ(store.bytes(), std::size_t{512} << 20);
  EXPECT_LT(own_memory_bytes(), before + kSmall);
  for (int layer = 0; layer < 8; ++layer) std::memset(store.v(layer, 7), 1, 256);
  EXPECT_LT(own_memory_bytes(), before + kSmall);
}

TEST(KvStore, MemoryThatCannotBeHad_isAModelErrorWithARemedy) {
  try {
    const KvStore store(unit, {1 << 8, 1 << 10, 512}, 1 << 30, CacheType::kF32);
    ADD_FAILURE() << "a store of " << store.bytes() << " bytes was made";
  } catch (const ModelError& error) {
    EXPECT_NE(std::string(error.what()).find("lower -c"), std::string::npos) << error.what();
  }
}

#ifdef YAMATA_TEST_LITTLE_MEMORY
TEST(KvStoreDeathTest, LimitOfMemory_isNamed) {
  EXPECT_EXIT(test::end_in_little_memory([] {
                const KvStore store(unit, {8, 8, 128}, 1 << 14, CacheType::kF16);
              }),
              testing::ExitedWithCode(2), "KV cache of 512 MiB on cpu; lower -c, or raise ulimit -v, which allows [0-9]+ MiB");
}
#endif

}  // namespace
}  // namespace yamata
