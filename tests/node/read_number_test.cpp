#include "node/read_number.hpp"

#include <gtest/gtest.h>

namespace yamata {
namespace {

TEST(ReadNumber, WholeWord_isANumber) {
  EXPECT_EQ(read_number<int>("-12"), -12);
  EXPECT_EQ(read_number<int>("007"), 7);
  EXPECT_EQ(read_number<double>("1e-06"), 1e-6);
  EXPECT_EQ(read_number<float>("0.5"), 0.5F);
}

TEST(ReadNumber, AnythingElse_isNone) {
  for (const char* word : {"", " 1", "1 ", "1,5", "1gbit", "+1", "0x1", "one", "-", "1e999"}) {
    EXPECT_FALSE(read_number<int>(word)) << word;
    EXPECT_FALSE(read_number<double>(word)) << word;
  }
  for (const char* word : {"1.0", "3000000000", "1e3"}) EXPECT_FALSE(read_number<int>(word)) << word;
}

}  // namespace
}  // namespace yamata
