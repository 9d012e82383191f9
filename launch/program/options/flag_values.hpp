#pragma once
// Checks values of flags, and reads lists such as "512,1024", "1-16", "64-1024*2".
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launch/program/options/given_flags.hpp"

namespace yamata {

/// Throws UsageError "FLAG must be WANTED" unless `good`.
void require(bool good, const char* flag, const char* wanted);

/// Throws UsageError "FLAG must be WANTED" unless the word is a known one; names the nearest of them.
void require_word(const std::string& word, const std::vector<std::string>& known, const char* flag, const char* wanted);

/// A flag's number; nothing if it is not given. Throws UsageError "--NAME must be ALLOWED" if it is not in `least`..`most`; `shown`: the
/// flag in that line, if it is usually written short.
template <class Number>
std::optional<Number> number_in(const GivenFlags& result, const char* name, Number least, Number most, const char* allowed,
                                const char* shown = nullptr) {
  if (!result.given(name)) return std::nullopt;
  const auto value = result.number<Number>(name);
  require(value >= least && value <= most, shown ? shown : (std::string("--") + name).c_str(), allowed);
  return value;
}

/// Why no speed can be predicted for -n 1.
inline constexpr const char* kNoSpeed = "a text of one token has no time between tokens, so no speed; give -n 2 or more";

/// A word as a number; infinity, which no flag allows, if it is not a number.
double parse_number(const std::string& word);

/// --slow: a list of RANK=FACTOR. Throws UsageError for anything else.
std::map<int, double> parse_slow(const std::vector<std::string>& words);
/// Throws UsageError if --slow names another rank than the first `ranks`.
void require_slow_ranks(const std::map<int, double>& slow, int ranks);

/// Numbers and ranges "first-last", "first-last+step", "first-last*factor", in the order written. Throws UsageError naming `flag` for
/// anything else, with `examples`, for a number outside `least`..`most`, and for more than 1024 numbers.
std::vector<int> parse_counts(const char* flag, const std::string& text, int least, int most,
                              const char* examples = "512,1024, 1-16, 1-9+4 or 64-1024*2");

/// Numbers of threads, as parse_counts reads them; the word "measure" becomes 0 and sets `measure`.
std::vector<int> parse_thread_counts(const char* flag, const std::string& text, bool& measure);
/// A single one. Throws UsageError for a list.
int parse_thread_count(const char* flag, const std::string& text, bool& measure);

}  // namespace yamata
