#include "mpi/pipeline/result_parts.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "node/error.hpp"
#include "src/sampling/best_logits.hpp"

namespace yamata {
namespace {

struct Entry {
  std::int32_t token;
  float value;
};

/// Descending, ties by id, as in best_logits. Unusable entries come last.
bool before(const Entry& a, const Entry& b) {
  if ((a.token < 0) != (b.token < 0)) return b.token < 0;
  return a.value > b.value || (a.value == b.value && a.token < b.token);
}

void append_best(std::span<const wire::Rows> parts, std::size_t row, std::size_t rows, std::size_t best, RunResult& result) {
  std::vector<Entry> entries;
  for (const wire::Rows& part : parts) {
    const std::size_t length = part.values.size() / rows;
    for (std::size_t i = row * length; i < (row + 1) * length; ++i) entries.push_back({part.tokens[i], part.values[i]});
  }
  std::sort(entries.begin(), entries.end(), before);
  entries.resize(std::min(best, entries.size()));
  for (const Entry& entry : entries) {
    result.tokens.push_back(entry.token);
    result.logits.push_back(entry.value);
  }
}

/// Log of the sum of exp(logit) of all tokens, from that of each part's tokens.
float merge_sums(std::span<const wire::Rows> parts, std::size_t row) {
  std::vector<float> sums;
  for (const wire::Rows& part : parts) {
    if (!part.sums.empty()) sums.push_back(part.sums[row]);
  }
  return log_sum_exp(sums);
}

/// Reorders [layer][row][width] to [row][layer][width].
std::vector<float> features_by_row(std::span<const float> by_layer, const wire::ResultLimits& limits) {
  const auto width = static_cast<std::size_t>(limits.width);
  std::vector<float> by_row;
  by_row.reserve(by_layer.size());
  for (std::size_t row = 0; !by_layer.empty() && row < limits.feature_rows; ++row) {
    for (std::size_t layer = 0; layer < limits.feature_layers; ++layer) {
      const auto values = by_layer.subspan((layer * limits.feature_rows + row) * width, width);
      by_row.insert(by_row.end(), values.begin(), values.end());
    }
  }
  return by_row;
}

}  // namespace

std::vector<float> RunResult::row(std::size_t i, std::size_t rows) const {
  const std::size_t length = logits.size() / rows;
  const auto values = std::span(logits).subspan(i * length, length);
  if (tokens.empty()) return {values.begin(), values.end()};
  return spread_logits(std::span(tokens).subspan(i * length, length), values, vocabulary);
}

std::int32_t RunResult::best_token(std::size_t i, std::size_t rows) const {
  const std::size_t length = logits.size() / rows;
  const auto values = std::span(logits).subspan(i * length, length);
  const auto best = static_cast<std::size_t>(std::ranges::max_element(values) - values.begin());
  return tokens.empty() ? static_cast<std::int32_t>(best) : tokens[i * length + best];
}

RunResult merge_parts(std::span<const wire::Rows> parts, const wire::ResultLimits& limits, std::span<const int> senders) {
  const wire::Rows& first = parts.front();
  RunResult result;
  result.run = first.run;
  result.skipped = first.skipped;
  result.vocabulary = static_cast<std::size_t>(limits.vocabulary);
  result.features = features_by_row(first.features, limits);
  for (std::size_t i = 1; i < parts.size(); ++i) {
    if (parts[i].run != first.run || parts[i].skipped != first.skipped)
      throw ClusterError(fmt::format("ranks {} and {} do not agree on what became of run {}", senders[0], senders[i], first.run));
  }
  if (first.skipped || limits.logit_rows == 0) return result;
  const bool all = first.tokens.empty();
  for (std::size_t row = 0; row < limits.logit_rows; ++row) {
    if (!all) append_best(parts, row, limits.logit_rows, static_cast<std::size_t>(limits.best), result);
    if (!all && limits.sums) result.sums.push_back(merge_sums(parts, row));
    for (const wire::Rows& part : parts) {
      const std::size_t length = part.values.size() / limits.logit_rows;
      const auto values = part.values.subspan(row * length, length);
      if (all) result.logits.insert(result.logits.end(), values.begin(), values.end());
    }
  }
  const std::size_t wanted = limits.logit_rows * static_cast<std::size_t>(all ? limits.vocabulary : limits.best);
  if (result.logits.size() != wanted)
    throw ClusterError(
        fmt::format("the parts of the logits of run {}, from rank {} on, are not those of all tokens", first.run, senders[0]));
  return result;
}

}  // namespace yamata
