#pragma once
// The kinds of draft heads.
#include <optional>
#include <string>

namespace yamata::draft_heads {

enum class Kind {
  kMedusa,  ///< each head guesses one of the next tokens, from the same hidden state
  kEagle,   ///< EAGLE-1 and -2: a matrix combines a token and the hidden state before it; this gives the next hidden state
  kDgf,     ///< the same, combined by a gate (Dovetail)
  kEagle3,  ///< the hidden state is the head's own, computed from three of the target's
  kNextn,   ///< an additional layer of the target's family, in its GGUF file (DeepSeek-V3's multi-token prediction, MTP)
};
const char* kind_name(Kind kind);
/// "medusa", "eagle", "dgf", "eagle3", "nextn".
std::optional<Kind> find_kind(const std::string& name);

}  // namespace yamata::draft_heads
