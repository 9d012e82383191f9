#include "launch/program/options/nearest_word.hpp"

#include <algorithm>

namespace yamata {
namespace {

std::string without_dashes(const std::string& word) { return word.substr(std::min(word.find_first_not_of('-'), word.size())); }

/// The number of letters to add, remove, replace or swap with the next one (optimal string alignment distance).
std::size_t distance(const std::string& a, const std::string& b) {
  std::vector<std::vector<std::size_t>> least(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        least[i][j] = i + j;
        continue;
      }
      least[i][j] = std::min({least[i - 1][j] + 1, least[i][j - 1] + 1, least[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) least[i][j] = std::min(least[i][j], least[i - 2][j - 2] + 1);
    }
  }
  return least[a.size()][b.size()];
}

}  // namespace

std::string nearest_word(const std::string& word, const std::vector<std::string>& known) {
  const std::string meant = without_dashes(word);
  std::string nearest, longer;
  std::size_t least = meant.size() / 3 + 1;
  for (const std::string& candidate : known) {
    const std::string bare = without_dashes(candidate);
    if (const std::size_t by = distance(meant, bare); by < least) {
      least = by;
      nearest = candidate;
    }
    if (meant.size() > 1 && bare.starts_with(meant) && (longer.empty() || candidate.size() < longer.size())) longer = candidate;
  }
  return longer.empty() ? nearest : longer;
}

std::string did_you_mean(const std::string& word, const std::vector<std::string>& known) {
  const std::string meant = nearest_word(word, known);
  return meant.empty() ? "" : " did you mean " + meant + "?";
}

}  // namespace yamata
