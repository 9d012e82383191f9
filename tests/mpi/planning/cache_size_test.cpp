#include "mpi/planning/cache_size.hpp"

#include <gtest/gtest.h>

namespace yamata {
namespace {

using Sizes = std::vector<std::int32_t>;

TEST(CacheSizes, BeginWithAContextForEachText_andEndWithOne) {
  EXPECT_EQ(cache_sizes(8, 100), (Sizes{800, 400, 200, 100}));
  EXPECT_EQ(cache_sizes(3, 100), (Sizes{300, 150, 100}));
}

TEST(CacheSizes, OfLongContexts_areUsualOnes) {
  EXPECT_EQ(cache_sizes(4, 10000), (Sizes{16384, 10000}));
  EXPECT_EQ(cache_sizes(2, 100000), Sizes{100000});
}

}  // namespace
}  // namespace yamata
