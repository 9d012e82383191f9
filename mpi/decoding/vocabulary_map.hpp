#pragma once
// Token ids of two models of one family.
#include <cstdint>
#include <string>
#include <vector>

namespace yamata {

/// Ids of one vocabulary as those of another; empty tables: they are the same.
struct VocabularyMap {
  std::vector<std::int32_t> to_target, to_draft;
  std::int64_t draft_tokens = 0;  ///< that the draft has; 0: not known

  /// Maps by the tokens' texts. Throws ModelError naming the first token of the draft that the target lacks.
  static VocabularyMap between(const std::vector<std::string>& target, const std::vector<std::string>& draft);
  std::int32_t target(std::int32_t draft_token) const;
  /// 0 where the draft lacks the token.
  std::int32_t draft(std::int32_t target_token) const;
};

}  // namespace yamata
