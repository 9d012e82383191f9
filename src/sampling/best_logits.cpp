#include "src/sampling/best_logits.hpp"

#include <algorithm>
#include <limits>

namespace yamata {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();
constexpr std::size_t kBlock = 32;  // number of logits that are compared together; few blocks contain one of the best

struct Entry {
  std::int32_t token = -1;
  float value = kNever;
};

/// Descending, ties by id.
bool before(const Entry& a, const Entry& b) { return a.value > b.value || (a.value == b.value && a.token < b.token); }

bool any_above(const float* values, std::size_t count, float least) {
  bool any = false;
  for (std::size_t i = 0; i < count; ++i) any |= values[i] > least;  // false for NaN
  return any;
}

/// The best of a row, as a heap with the worst of them on top. Later logits have higher ids, so an equal one does not replace another.
void find_best(std::span<const float> row, std::size_t count, std::vector<Entry>& best) {
  best.clear();
  float least = kNever;
  for (std::size_t begin = 0; begin < row.size(); begin += kBlock) {
    const std::size_t end = std::min(row.size(), begin + kBlock);
    if (!any_above(row.data() + begin, end - begin, least)) continue;
    for (std::size_t i = begin; i < end; ++i) {
      if (!(row[i] > least)) continue;
      if (best.size() == count) {
        std::pop_heap(best.begin(), best.end(), before);
        best.pop_back();
      }
      best.push_back({static_cast<std::int32_t>(i), row[i]});
      std::push_heap(best.begin(), best.end(), before);
      if (best.size() == count) least = best.front().value;
    }
  }
  std::sort_heap(best.begin(), best.end(), before);
  best.resize(count);
}

}  // namespace

BestLogits best_logits(std::span<const float> logits, std::size_t vocabulary, std::size_t count) {
  BestLogits found;
  std::vector<Entry> best;
  for (std::size_t at = 0; at + vocabulary <= logits.size(); at += vocabulary) {
    find_best(logits.subspan(at, vocabulary), count, best);
    for (const Entry& entry : best) {
      found.tokens.push_back(entry.token);
      found.values.push_back(entry.value);
    }
  }
  return found;
}

std::vector<float> spread_logits(std::span<const std::int32_t> tokens, std::span<const float> values, std::size_t vocabulary) {
  std::vector<float> row(vocabulary, kNever);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] >= 0) row[static_cast<std::size_t>(tokens[i])] = values[i];
  }
  return row;
}

}  // namespace yamata
