#pragma once
// The share of some long work that is done, drawn over itself on stderr.
#include <string>

namespace yamata {

/// Gone when all is done. For terminals: the caller asks whether stderr is one.
class ProgressBar {
 public:
  explicit ProgressBar(std::string label) : label_(std::move(label)) {}
  /// `share` of 1 that is done.
  void operator()(double share);
  /// Takes the bar away before other lines are written.
  void clear();

 private:
  std::string label_;
  int shown_ = -1;
};

}  // namespace yamata
