#pragma once
// Finds stop strings in a text that grows, also across tokens.
#include <string>
#include <string_view>
#include <vector>

namespace yamata {

/// A text ends before the first of its stop strings that is complete. What may still become one is held back.
/// launch/serve has its own (launch/python/serving/text_filters.py) for texts with thinking or calls of tools, where they count in the
/// content only.
class StopFinder {
 public:
  /// Empty strings are ignored.
  explicit StopFinder(std::vector<std::string> stops);
  /// Adds text; returns what can no longer be part of a stop string. Nothing after one has been found.
  std::string push(std::string_view text);
  /// The text has ended: returns what was held back.
  std::string finish();
  bool found() const { return found_; }

 private:
  std::size_t held_back() const;

  std::vector<std::string> stops_;
  std::string pending_;
  bool found_ = false;
};

}  // namespace yamata
