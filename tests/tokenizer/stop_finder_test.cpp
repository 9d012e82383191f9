// Stop strings in a text that comes in pieces.
#include "src/tokenizer/stop_finder.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <random>
#include <sstream>

#include "tests/paths.hpp"

namespace yamata::test {
namespace {

/// The text before the first complete stop string, by comparing at every byte.
std::string expected(const std::string& text, const std::vector<std::string>& stops) {
  for (std::size_t end = 1; end <= text.size(); ++end) {
    std::size_t longest = 0;
    for (const std::string& stop : stops) {
      if (!stop.empty() && std::string_view(text).substr(0, end).ends_with(stop)) longest = std::max(longest, stop.size());
    }
    if (longest > 0) return text.substr(0, end - longest);
  }
  return text;
}

TEST(StopFinder, TextInPieces_endsBeforeTheFirstStop) {
  std::mt19937 random(7);
  const auto below = [&](std::size_t most) { return std::uniform_int_distribution<std::size_t>(0, most - 1)(random); };
  const auto word = [&](std::size_t most) {
    std::string made;
    for (std::size_t i = below(most + 1); i > 0; --i) made += "ab\xc3\xa9"[below(2)];
    return made;
  };
  int stopped = 0, whole = 0;
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::string> stops;
    for (std::size_t i = below(4); i > 0; --i) stops.push_back(word(5));
    const std::string text = word(24);
    StopFinder finder(stops);
    std::string out;
    for (std::size_t at = 0; at < text.size() && !finder.found();) {
      const std::size_t length = 1 + below(4);
      out += finder.push(std::string_view(text).substr(at, length));
      EXPECT_TRUE(expected(text, stops).starts_with(out)) << "nothing of a stop string leaks";
      at += length;
    }
    const bool found = finder.found();
    if (!found) out += finder.finish();
    ASSERT_EQ(out, expected(text, stops)) << round;
    (found ? stopped : whole) += 1;
  }
  EXPECT_GT(stopped, 300);
  EXPECT_GT(whole, 300);
}

std::string delivered(const std::string& text, const std::vector<std::string>& stops, std::size_t piece) {
  StopFinder finder(stops);
  std::string out;
  for (std::size_t at = 0; at < text.size(); at += piece) out += finder.push(std::string_view(text).substr(at, piece));
  return finder.found() ? out : out + finder.finish();
}

TEST(StopFinder, CasesOfTheFile_areDeliveredAsItSays) {
  std::ifstream in(source_path("/tests/tokenizer/stop_strings.txt"));
  std::string line;
  int cases = 0;
  while (std::getline(in, line)) {
    const std::size_t first = line.find(" | "), second = line.rfind(" | ");
    if (line.starts_with('#') || first == std::string::npos) continue;
    const std::string text = line.substr(0, first);
    std::vector<std::string> stops;
    if (second > first) {
      std::istringstream list(line.substr(first + 3, second - first - 3));
      for (std::string stop; std::getline(list, stop, ',');) stops.push_back(stop);
    }
    for (const std::size_t piece : {std::size_t{1}, std::size_t{3}, text.size()}) {
      EXPECT_EQ(delivered(text, stops, piece), line.substr(second + 3)) << line << ", in pieces of " << piece;
    }
    ++cases;
  }
  EXPECT_GT(cases, 10);
}

TEST(StopFinder, EndThatOnlyBegins_isDelivered) {
  StopFinder finder({"###"});
  EXPECT_EQ(finder.push("one ##"), "one ");
  EXPECT_EQ(finder.push(" two#"), "## two");
  EXPECT_EQ(finder.finish(), "#");
  EXPECT_FALSE(finder.found());
}

}  // namespace
}  // namespace yamata::test
