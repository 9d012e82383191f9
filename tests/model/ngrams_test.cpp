// The rows of n-gram embeddings, compared with their definition: the factors of an n-gram's tokens, joined by xor, modulo a part of the
// table.
#include "src/model/ngrams.hpp"

#include <gtest/gtest.h>

namespace yamata {
namespace {

constexpr std::uint64_t kLast = 0x9e3779b97f4a7c15u, kBefore = 0xc2b2ae3d27d4eb4fu, kFirst = 0x165667b19e3779f9u;

NgramShape trigrams() {
  NgramShape shape;
  shape.layer = 0, shape.size = 3, shape.heads = 4, shape.head_dim = 8, shape.table_rows = 100, shape.end = 9;
  shape.factors = {kLast, kBefore, kFirst};
  shape.first_rows = {0, 11, 30, 60}, shape.row_counts = {11, 13, 17, 19};
  return shape;
}

std::vector<std::int32_t> rows_of(std::uint64_t last, std::uint64_t before, std::uint64_t first) {
  const std::uint64_t two = (last * kLast) ^ (before * kBefore), three = two ^ (first * kFirst);
  return {static_cast<std::int32_t>(two % 11), static_cast<std::int32_t>(11 + two % 13), static_cast<std::int32_t>(30 + three % 17),
          static_cast<std::int32_t>(60 + three % 19)};
}

/// Tokens 7, 9, 5, 6 in cells 3, 0, 2, 1, and a guess 8 beside the last one, in cell 4.
TEST(Ngrams, AreOfTheLastTokens_upToTheEndOfAText) {
  const NgramShape shape = trigrams();
  Ngrams ngrams(shape, 5);
  ngrams.place(std::vector<std::int32_t>{3, 0}, std::vector<std::int32_t>{7, 9});
  ngrams.place(std::vector<std::int32_t>{2, 1, 4}, std::vector<std::int32_t>{5, 6, 8});
  const auto found = [&](std::vector<std::int32_t> seen) {
    std::vector<std::int32_t> rows;
    ngrams.append_rows(seen, rows);
    return rows;
  };
  EXPECT_EQ(found({3}), rows_of(7, 9, 9)) << "before a text, there are its ends";
  EXPECT_EQ(found({3, 0}), rows_of(9, 7, 9)) << "an end sees its own text";
  EXPECT_EQ(found({3, 0, 2}), rows_of(5, 9, 9)) << "what is before an end does not count";
  EXPECT_EQ(found({3, 0, 2, 1}), rows_of(6, 5, 9));
  EXPECT_EQ(found({3, 0, 2, 4}), rows_of(8, 5, 9));
  EXPECT_EQ(found({3, 2, 1}), rows_of(6, 5, 7));
  EXPECT_EQ(found({0, 3, 2, 1}), rows_of(6, 5, 7)) << "older tokens do not count";
}

}  // namespace
}  // namespace yamata
