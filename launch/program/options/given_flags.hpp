#pragma once
// What a command line gives for each flag of a command.
#include <map>
#include <string>
#include <vector>

#include "launch/program/options/flags.hpp"

namespace yamata {

/// The values of flags, by their names ("predict").
class GivenFlags {
 public:
  explicit GivenFlags(const Flags& flags);

  /// Adds a flag with this value, as it stands on the command line.
  void add(const Flag& flag, std::string value) { values_[flag.name].push_back(std::move(value)); }
  void add_word(std::string word) { words_.push_back(std::move(word)); }

  /// The flag as documents write it: "-md", "--heads".
  std::string shown(const std::string& name) const { return flags_.at(name).shown(); }
  /// Whether the flag was given, rather than left at its default; false for a flag that the command does not have.
  bool given(const std::string& name) const { return values_.contains(name); }
  /// The last value; if the flag is not given its default, or nothing.
  std::string text(const std::string& name) const;
  /// The number of a flag that is given or has a default.
  template <class Number>
  Number number(const std::string& name) const;
  /// One value for each time that the flag is given.
  std::vector<std::string> all(const std::string& name) const;
  /// The words between commas of all these values.
  std::vector<std::string> list(const std::string& name) const;
  /// The values of all occurrences of a flag, joined by commas; its default if it is not given.
  std::string joined(const std::string& name) const;
  /// The arguments that belong to no flag.
  const std::vector<std::string>& words() const { return words_; }

 private:
  std::map<std::string, Flag> flags_;  ///< all that the command has
  std::map<std::string, std::vector<std::string>> values_;
  std::vector<std::string> words_;
};

/// Whether a flag of this kind can have this value.
bool is_value(FlagKind kind, const std::string& text);

/// The words between commas; an empty text is one empty word.
std::vector<std::string> split_list(const std::string& text);

}  // namespace yamata
