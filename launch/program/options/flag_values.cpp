#include "launch/program/options/flag_values.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <system_error>

#include "launch/program/options/nearest_word.hpp"
#include "node/error.hpp"
#include "node/read_number.hpp"

namespace yamata {
namespace {

constexpr std::size_t kMaxNumbers = 1024;

struct Range {
  int first = 0, last = 0, step = 1, factor = 1;
};

/// Removes a number from the front and returns it; the largest one for one that is larger.
std::optional<int> take_number(std::string_view& text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::result_out_of_range) value = std::numeric_limits<int>::max();
  if (error == std::errc::invalid_argument || text.front() == '-') return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

bool take_sign(std::string_view& text, char sign) {
  if (text.empty() || text.front() != sign) return false;
  text.remove_prefix(1);
  return true;
}

std::optional<Range> parse_range(std::string_view text) {
  const auto first = take_number(text);
  if (!first) return std::nullopt;
  Range range{*first, *first};
  if (take_sign(text, '-')) {
    const auto last = take_number(text);
    if (!last || *last < *first) return std::nullopt;
    range.last = *last;
    const bool adds = take_sign(text, '+'), multiplies = !adds && take_sign(text, '*');
    if (adds || multiplies) {
      const auto by = take_number(text);
      if (!by || *by < (multiplies ? 2 : 1) || (multiplies && *first < 1)) return std::nullopt;
      (multiplies ? range.factor : range.step) = *by;
    }
  }
  return text.empty() ? std::optional(range) : std::nullopt;
}

}  // namespace

void require(bool good, const char* flag, const char* wanted) {
  if (!good) throw UsageError(fmt::format("{} must be {}", flag, wanted));
}

void require_word(const std::string& word, const std::vector<std::string>& known, const char* flag, const char* wanted) {
  if (std::ranges::find(known, word) != known.end()) return;
  const std::string meant = did_you_mean(word, known);
  throw UsageError(fmt::format("{} must be {}{}{}", flag, wanted, meant.empty() ? "" : ";", meant));
}

double parse_number(const std::string& word) {
  const double value = read_number<double>(word).value_or(HUGE_VAL);
  return std::isnan(value) ? HUGE_VAL : value;
}

std::map<int, double> parse_slow(const std::vector<std::string>& words) {
  std::map<int, double> slow;
  for (const std::string& word : words) {
    const std::size_t equals = word.find('=');
    const double rank = parse_number(word.substr(0, equals));
    const double factor = equals == std::string::npos ? HUGE_VAL : parse_number(word.substr(equals + 1));
    require(rank >= 0 && rank < 1e6 && rank == std::floor(rank) && factor > 0 && factor <= 1e6, "--slow",
            "RANK=FACTOR with a factor above 0, such as 2=1.5");
    slow[static_cast<int>(rank)] = factor;
  }
  return slow;
}

void require_slow_ranks(const std::map<int, double>& slow, int ranks) {
  if (!slow.empty() && slow.rbegin()->first >= ranks)
    throw UsageError(fmt::format("--slow names rank {}, but there are {} at most; ranks count from 0", slow.rbegin()->first, ranks));
}

std::vector<int> parse_counts(const char* flag, const std::string& text, int least, int most, const char* examples) {
  std::vector<int> numbers;
  for (const std::string& word : split_list(text)) {
    const auto range = parse_range(word);
    if (!range) throw UsageError(fmt::format("{}: '{}' is no number and no rising range; write lists such as {}", flag, word, examples));
    if (range->first < least || range->last > most)
      throw UsageError(fmt::format("{}: '{}' is not between {} and {}", flag, word, least, most));
    const auto next = [&](std::int64_t n) { return range->factor > 1 ? n * range->factor : n + range->step; };
    for (std::int64_t n = range->first; n <= range->last; n = next(n)) {
      if (numbers.size() == kMaxNumbers) throw UsageError(fmt::format("{}: more than {} numbers; take a larger step", flag, kMaxNumbers));
      numbers.push_back(static_cast<int>(n));
    }
  }
  return numbers;
}

int parse_thread_count(const char* flag, const std::string& text, bool& measure) {
  const bool is_number = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
  require(is_number || text == "measure", flag, "a number between 0 and 1024, or measure");
  return parse_thread_counts(flag, text, measure).front();
}

std::vector<int> parse_thread_counts(const char* flag, const std::string& text, bool& measure) {
  std::vector<int> counts;
  for (const std::string& word : split_list(text)) {
    const bool measured = word == "measure";
    measure |= measured;
    const std::vector<int> numbers = measured ? std::vector<int>{0} : parse_counts(flag, word, 0, 1024);
    counts.insert(counts.end(), numbers.begin(), numbers.end());
  }
  return counts;
}

}  // namespace yamata
