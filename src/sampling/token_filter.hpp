#pragma once
// What may follow a text, as a schema says.
#include <cstdint>
#include <span>

namespace yamata {

/// Belongs to one text, whose answer it follows.
class TokenFilter {
 public:
  virtual ~TokenFilter() = default;
  /// Sets the logits of tokens that may not follow the answer so far to minus infinity. The others keep their order. `logits`:
  /// [vocabulary].
  virtual void restrict(std::span<float> logits) = 0;
  /// The answer has grown by a token.
  virtual void advance(std::int32_t token) = 0;
};

}  // namespace yamata
