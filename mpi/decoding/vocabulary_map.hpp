#pragma once
// Translates token ids between two models of one family.
#include <cstdint>
#include <string>
#include <vector>

namespace yamata {

/// Maps token ids of one vocabulary to another; empty tables: the ids are equal.
struct VocabularyMap {
  std::vector<std::int32_t> to_target, to_draft;
  std::int64_t draft_tokens = 0;  ///< size of the draft's vocabulary; 0: unknown

  /// Maps tokens by their texts. Throws ModelError naming the first token of the draft that the target lacks.
  static VocabularyMap between(const std::vector<std::string>& target, const std::vector<std::string>& draft);
  std::int32_t target(std::int32_t draft_token) const;
  /// 0 if the draft lacks the token.
  std::int32_t draft(std::int32_t target_token) const;
};

}  // namespace yamata
