#pragma once
// Translates token ids between two models of one family.
#include <cstdint>
#include <string>
#include <vector>

namespace yamata {

/// Maps token ids of one vocabulary to another; empty tables: the ids are equal.
struct VocabularyMap {
  std::vector<std::int32_t> to_target, to_draft;  ///< -1 in the first: the target lacks the token
  std::int64_t draft_tokens = 0;                  ///< size of the draft's vocabulary; 0: unknown

  /// Tokens that the target of a draft may lack: chat tokens of another training, and padding.
  static constexpr std::int64_t kMostLacking = 128;

  /// Maps tokens by their texts. Throws ModelError naming the first token of the draft that the target lacks, if it lacks more than
  /// kMostLacking.
  static VocabularyMap between(const std::vector<std::string>& target, const std::vector<std::string>& draft);
  /// -1 if the target lacks the token: such a guess must not be sent.
  std::int32_t target(std::int32_t draft_token) const;
  /// 0 if the draft lacks the token.
  std::int32_t draft(std::int32_t target_token) const;
};

}  // namespace yamata
