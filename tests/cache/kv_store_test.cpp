#include "cache/kv_store.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "node/error.hpp"
#include "node/topology.hpp"

namespace yamata {
namespace {

constexpr int kLayers = 3, kHeads = 2, kHeadDim = 16, kCells = 5;

class KvStoreOf : public testing::TestWithParam<CacheType> {
 protected:
  const std::size_t plane_ = std::size_t{kHeadDim} * kCells * (GetParam() == CacheType::kF16 ? 2 : 4);
};

TEST_P(KvStoreOf, Planes_lieApartAndFillTheStore) {
  const KvStore store(kLayers, kHeads, kHeadDim, kCells, GetParam());
  EXPECT_EQ(store.type(), GetParam());
  std::vector<unsigned char*> planes;
  for (int layer = 0; layer < kLayers; ++layer) {
    for (int head = 0; head < kHeads; ++head) {
      planes.push_back(static_cast<unsigned char*>(store.k(layer, head)));
      planes.push_back(static_cast<unsigned char*>(store.v(layer, head)));
    }
  }
  EXPECT_EQ(store.bytes(), plane_ * planes.size());
  EXPECT_EQ(store.bytes(), KvStore::bytes_for(kLayers, kHeads, kHeadDim, kCells, GetParam()));
  for (std::size_t i = 0; i < planes.size(); ++i) std::memset(planes[i], static_cast<int>(i + 1), plane_);
  for (std::size_t i = 0; i < planes.size(); ++i) {
    EXPECT_EQ(std::count(planes[i], planes[i] + plane_, i + 1), static_cast<std::ptrdiff_t>(plane_)) << "plane " << i;
  }
  const auto [first, last] = std::minmax_element(planes.begin(), planes.end());
  EXPECT_EQ(static_cast<std::size_t>(*last - *first) + plane_, store.bytes());
}

TEST_P(KvStoreOf, New_isZero) {
  const KvStore store(kLayers, kHeads, kHeadDim, kCells, GetParam());
  const auto* bytes = static_cast<const unsigned char*>(store.k(0, 0));
  EXPECT_EQ(std::count(bytes, bytes + store.bytes(), 0), static_cast<std::ptrdiff_t>(store.bytes()));
}

INSTANTIATE_TEST_SUITE_P(Types, KvStoreOf, testing::Values(CacheType::kF16, CacheType::kF32),
                         [](const auto& info) { return info.param == CacheType::kF16 ? "F16" : "F32"; });

TEST(KvStore, BytesFor_countsKeysAndValuesWithoutOverflow) {
  EXPECT_EQ(KvStore::bytes_for(1, 1, 16, 1, CacheType::kF16), 64u);
  EXPECT_EQ(KvStore::bytes_for(1, 1, 16, 1, CacheType::kF32), 128u);
  EXPECT_EQ(KvStore::bytes_for(80, 8, 128, 1 << 20, CacheType::kF16), 2ull * 80 * 8 * 128 * (1 << 20) * 2);
}

TEST(KvStore, PagesNotWritten_takeNoMemory) {
  constexpr std::size_t kSmall = 32 << 20;
  const std::size_t before = own_memory_bytes();
  const KvStore store(8, 8, 128, 1 << 14, CacheType::kF16);
  ASSERT_EQ(store.bytes(), std::size_t{512} << 20);
  EXPECT_LT(own_memory_bytes(), before + kSmall);
  for (int layer = 0; layer < 8; ++layer) std::memset(store.v(layer, 7), 1, 256);
  EXPECT_LT(own_memory_bytes(), before + kSmall);
}

TEST(KvStore, MemoryThatCannotBeHad_isAModelErrorWithARemedy) {
  try {
    const KvStore store(1 << 8, 1 << 10, 512, 1 << 30, CacheType::kF32);
    ADD_FAILURE() << "a store of " << store.bytes() << " bytes was made";
  } catch (const ModelError& error) {
    EXPECT_NE(std::string(error.what()).find("lower -c"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace yamata
