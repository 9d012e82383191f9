#pragma once
// The result of a run.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace yamata {

/// The result of a run, or of a text's part of it.
struct RunResult {
  std::uint64_t run = 0;
  std::int32_t rows = 0;             ///< of the run, those of other texts included; 0: of a part of it that is not the first
  bool skipped = false;              ///< cancelled: no logits, no features
  std::vector<float> logits;         ///< [logit_rows][vocabulary], or the best of each row
  std::vector<std::int32_t> tokens;  ///< in the latter case: the tokens of the logits
  std::size_t vocabulary = 0;        ///< in the latter case: size of the vocabulary
  std::vector<float> sums;           ///< in the latter case, if requested: log of the sum of exp(logit) of all tokens, per row
  std::vector<float> features;       ///< [feature_rows][feature_layers][dim]

  /// Logits of the whole vocabulary for the i-th of `rows` rows; minus infinity for tokens that are not among the requested best.
  std::vector<float> row(std::size_t i, std::size_t rows) const;
  /// The token with the highest logit in the i-th of `rows` rows.
  std::int32_t best_token(std::size_t i, std::size_t rows) const;
  /// Features of the i-th of `rows` rows, of all layers.
  std::span<const float> feature_row(std::size_t i, std::size_t rows) const {
    return std::span(features).subspan(i * (features.size() / rows), features.size() / rows);
  }
};

}  // namespace yamata
