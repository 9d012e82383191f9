#pragma once
// A progress bar on stderr.
#include <string>

namespace yamata {

/// Removed at the end. Only for terminals: the caller checks whether stderr is one.
class ProgressBar {
 public:
  explicit ProgressBar(std::string label) : label_(std::move(label)) {}
  /// `share`: the part that is done, up to 1.
  void operator()(double share);
  /// Removes the bar before other lines are written.
  void clear();

 private:
  std::string label_;
  int shown_ = -1;
};

}  // namespace yamata
