#include "tests/families/greedy_text.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <numeric>
#include <sstream>

namespace yamata::families_test {

Step greedy_step(const float* logits, std::size_t tokens) {
  constexpr std::ptrdiff_t kBest = 10;
  std::vector<std::int32_t> ids(tokens);
  std::iota(ids.begin(), ids.end(), 0);
  std::partial_sort(ids.begin(), ids.begin() + kBest, ids.end(),
                    [&](std::int32_t a, std::int32_t b) { return logits[a] != logits[b] ? logits[a] > logits[b] : a < b; });
  const double peak = logits[ids[0]];
  double total = 0;
  for (std::size_t i = 0; i < tokens; ++i) total += std::exp(logits[i] - peak);
  Step step{ids[0], {}};
  for (std::ptrdiff_t i = 0; i < kBest; ++i) {
    const std::int32_t id = ids[static_cast<std::size_t>(i)];
    step.best.emplace_back(id, logits[id] - peak - std::log(total));
  }
  return step;
}

Text read_text(const std::string& path) {
  Text text;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream fields(line);
    Step step;
    fields >> step.id;
    std::int32_t id = 0;
    double value = 0;
    for (char colon = 0; fields >> id >> colon >> value;) step.best.emplace_back(id, value);
    text.push_back(std::move(step));
  }
  return text;
}

}  // namespace yamata::families_test
