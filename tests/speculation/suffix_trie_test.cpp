// The suffix trie against counting by hand, over random texts of few tokens.
#include "src/speculation/suffix_trie.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

namespace yamata {
namespace {

using Text = std::vector<std::int32_t>;
using Place = SuffixTrie::Place;

/// Every passage of some texts, counted one by one.
struct Counted {
  Counted(const std::vector<Text>& texts, std::size_t depth) {
    for (const Text& text : texts) {
      for (std::size_t begin = 0; begin < text.size(); ++begin) {
        for (std::size_t length = 0; length <= std::min(depth, text.size() - begin); ++length) {
          const auto at = text.begin() + static_cast<std::ptrdiff_t>(begin), end = at + static_cast<std::ptrdiff_t>(length);
          ++count[Text(at, end)];
          if (length < depth && end != text.end()) ++followed[Text(at, end)];
        }
      }
    }
  }
  double path(const Text& passage, const Text& way) const {
    double probability = 1;
    Text at = passage;
    for (const std::int32_t token : way) {
      const double of = followed.at(at);
      at.push_back(token);
      probability *= count.at(at) / of;
    }
    return probability;
  }
  /// Of every way to go on, at most `most` tokens long, the likeliest `most` path probabilities.
  std::vector<double> likeliest(const Text& passage, std::size_t most) const {
    std::vector<double> all;
    for (const auto& [other, n] : count) {
      if (other.size() <= passage.size() || other.size() > passage.size() + most) continue;
      if (!std::equal(passage.begin(), passage.end(), other.begin())) continue;
      all.push_back(path(passage, Text(other.begin() + static_cast<std::ptrdiff_t>(passage.size()), other.end())));
    }
    std::sort(all.rbegin(), all.rend());
    all.resize(std::min(all.size(), most));
    return all;
  }
  std::map<Text, int> count, followed;
};

std::optional<Place> find(const SuffixTrie& trie, const Text& passage) {
  Place place;
  for (const std::int32_t token : passage) {
    if (!trie.step(place, token)) return std::nullopt;
  }
  return place;
}

/// The words on the way to the n-th continuation.
Text way_to(const std::vector<SuffixTrie::Continuation>& ways, std::size_t n) {
  Text way;
  for (auto i = static_cast<std::int32_t>(n); i >= 0; i = ways[static_cast<std::size_t>(i)].parent)
    way.insert(way.begin(), ways[static_cast<std::size_t>(i)].token);
  return way;
}

void expect_same_ways(const SuffixTrie& trie, const Counted& counted, const Text& passage, Place place, std::size_t most) {
  const auto ways = trie.continue_from(place, most);
  const std::vector<double> expected = counted.likeliest(passage, most);
  ASSERT_EQ(ways.size(), expected.size());
  std::vector<Text> seen;
  for (std::size_t n = 0; n < ways.size(); ++n) {
    ASSERT_LT(ways[n].parent, static_cast<std::int32_t>(n)) << "parents come first";
    ASSERT_NEAR(ways[n].path_probability, expected[n], 1e-5) << "the likeliest first";
    const Text way = way_to(ways, n);
    ASSERT_NEAR(counted.path(passage, way), expected[n], 1e-5) << "that is what this way is worth";
    ASSERT_EQ(std::count(seen.begin(), seen.end(), way), 0) << "each way once";
    seen.push_back(way);
  }
  ASSERT_NEAR(trie.likeliest(place), expected.empty() ? 0 : expected[0], 1e-5);
}

/// Everything there is to ask, of every passage there is and of some that there are not.
void expect_same(const SuffixTrie& trie, const std::vector<Text>& texts, std::size_t depth, std::mt19937& random) {
  const Counted counted(texts, depth);
  for (const auto& [passage, n] : counted.count) {
    if (passage.empty()) continue;
    const auto place = find(trie, passage);
    ASSERT_TRUE(place);
    ASSERT_EQ(trie.count(*place), static_cast<std::uint32_t>(n));
    const auto followed = counted.followed.find(passage);
    ASSERT_EQ(trie.followed(*place), followed == counted.followed.end() ? 0u : static_cast<std::uint32_t>(followed->second));
    if (random() % 8 == 0) expect_same_ways(trie, counted, passage, *place, 1 + random() % 9);
    Text longer = passage;
    longer.push_back(static_cast<std::int32_t>(random() % 4));
    ASSERT_EQ(find(trie, longer).has_value(), counted.count.contains(longer));
  }
  const Text& last = texts.back();
  ASSERT_EQ(trie.open(), std::min(depth, last.size()));
  for (std::size_t length = 1; length <= trie.open(); ++length)
    ASSERT_EQ(trie.end(length), find(trie, Text(last.end() - static_cast<std::ptrdiff_t>(length), last.end())));
}

TEST(SuffixTrie, RandomTexts_areCountedAsByHand) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    const std::size_t depth = 1 + random() % 7;
    const unsigned alphabet = 1 + random() % 3;
    SuffixTrie trie(depth);
    std::vector<Text> texts;
    for (int step = 0; step < 60; ++step) {
      if (texts.empty() || random() % 12 == 0) {
        trie.begin_text();
        texts.emplace_back();
      }
      texts.back().push_back(static_cast<std::int32_t>(random() % alphabet));
      trie.append(texts.back().back());
      if (random() % 20 == 0 && texts.size() > 1) {
        trie.forget_oldest();
        texts.erase(texts.begin());
      }
      SCOPED_TRACE(testing::Message() << "seed " << seed << ", step " << step);
      if (random() % 5 == 0) expect_same(trie, texts, depth, random);
      if (testing::Test::HasFatalFailure()) return;
    }
    std::size_t tokens = 0;
    for (const Text& text : texts) tokens += text.size();
    EXPECT_EQ(trie.tokens(), tokens);
    EXPECT_EQ(trie.texts(), texts.size());
  }
}

TEST(SuffixTrie, ForgettingEveryText_leavesNothing) {
  std::mt19937 random(5);
  SuffixTrie trie(6);
  for (int text = 0; text < 4; ++text) {
    trie.begin_text();
    for (int i = 0; i < 50; ++i) trie.append(static_cast<std::int32_t>(random() % 3));
  }
  for (int text = 0; text < 4; ++text) trie.forget_oldest();
  EXPECT_EQ(trie.tokens(), 0u);
  for (std::int32_t token = 0; token < 3; ++token) EXPECT_FALSE(find(trie, {token}));
  trie.begin_text();
  trie.append(2);
  EXPECT_EQ(trie.count(*find(trie, {2})), 1u);
}

TEST(SuffixTrie, OfEquallyFrequentWays_theLatestComesFirst) {
  SuffixTrie trie;
  trie.begin_text();
  for (const std::int32_t token : {1, 5, 1, 6, 1, 7, 1}) trie.append(token);
  const auto ways = trie.continue_from(trie.end(1), 1);
  ASSERT_EQ(ways.size(), 1u);
  EXPECT_EQ(ways[0].token, 7);
  EXPECT_FLOAT_EQ(ways[0].probability, 1.f / 3);
}

TEST(SuffixTrie, EdgesInsideAPassage_goOnAsItDid) {
  SuffixTrie trie;
  trie.begin_text();
  for (std::int32_t token = 0; token < 20; ++token) trie.append(token);
  Place place;
  for (std::int32_t token = 3; token < 6; ++token) ASSERT_TRUE(trie.step(place, token));
  const auto ways = trie.continue_from(place, 4);
  ASSERT_EQ(ways.size(), 4u);
  for (std::size_t n = 0; n < 4; ++n) {
    EXPECT_EQ(ways[n].token, static_cast<std::int32_t>(6 + n));
    EXPECT_EQ(ways[n].parent, static_cast<std::int32_t>(n) - 1);
    EXPECT_FLOAT_EQ(ways[n].path_probability, 1);
  }
}

TEST(SuffixTrie, WaysBelowTheLeastProbability_areLeftOut) {
  SuffixTrie trie;
  trie.begin_text();
  for (const std::int32_t token : {1, 2, 1, 2, 1, 2, 1, 3, 1}) trie.append(token);
  EXPECT_EQ(trie.continue_from(trie.end(1), 100, 0.6f).size(), 2u) << "3/4: 2, and 2 1; then 1/2";
}

}  // namespace
}  // namespace yamata
