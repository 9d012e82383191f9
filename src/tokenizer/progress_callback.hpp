#pragma once
// Lets somebody watch how a long text is encoded.
#include <cstdint>
#include <functional>
#include <utility>

namespace yamata {

/// Calls a function again and again, some thousand times a second. It may throw, which ends the encoding.
class ProgressCallback {
 public:
  explicit ProgressCallback(std::function<void()> watch = {}) : watch_(std::move(watch)) {}
  /// To be called for each piece of work: a merge, a match, or the like.
  void operator()() {
    constexpr std::uint32_t kBetween = 4096;
    if (++done_ % kBetween == 0) now();
  }
  /// After a larger piece of work.
  void now() const {
    if (watch_) watch_();
  }

 private:
  const std::function<void()> watch_;
  std::uint32_t done_ = 0;
};

}  // namespace yamata
