#include "launch/program/planning/measurement_cache.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "node/median.hpp"
#include "src/model/layer_probe.hpp"

namespace yamata {
namespace {

/// A kind of measurement: the end of its name, and the first word of its text.
struct Kind {
  const char *name, *first_word;
};
constexpr Kind kSpeed{".speed", "yamata-speed-2"}, kThreads{".threads", "yamata-threads-1"}, kWidths{".widths", "yamata-widths-1"},
    kFirstChoices{".first-choices", "yamata-first-choices-3"}, kLink{".link", "yamata-link-1"}, kGroup{".group", "yamata-group-2"},
    kSavings{".savings", "yamata-savings-2"}, kForecast{".forecast", "yamata-forecast-1"};
constexpr double kMinNumber = 1e-9;  // only positive numbers are kept

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

struct Kept {
  std::vector<double> numbers;
  std::int64_t written_s = 0;
};

/// Reads `count` positive numbers, and the time when they were written.
std::optional<Kept> read_numbers(const KeptValues& values, const MeasurementKey& key, Kind kind, std::size_t count, std::int64_t now_s) {
  std::istringstream in{std::string(values.find(key.name(kind.name)))};
  std::string word, rest;
  Kept kept{std::vector<double>(count), 0};
  if (!(in >> word) || word != kind.first_word) return std::nullopt;
  for (double& number : kept.numbers) {
    if (!(in >> number) || !std::isfinite(number) || number <= 0) return std::nullopt;
  }
  if (!(in >> kept.written_s) || in >> rest || kept.written_s > now_s || kept.written_s <= now_s - kKept_s) return std::nullopt;
  return kept;
}

std::optional<Kept> read_numbers(const std::string& folder, const MeasurementKey& key, Kind kind, std::size_t count, std::int64_t now_s) {
  return read_numbers(KeptValues(folder), key, kind, count, now_s);
}

void keep_text(const std::string& folder, const MeasurementKey& key, Kind kind, const std::string& text, std::int64_t measured_s,
               std::int64_t now_s) {
  keep_value(folder, {key.name(kind.name), fmt::format("{} {}", kind.first_word, text), measured_s + kKept_s}, now_s);
}

/// `measured_s`: when, in seconds since the epoch.
void keep_numbers(const std::string& folder, const MeasurementKey& key, Kind kind, std::span<const double> numbers, std::int64_t measured_s,
                  std::int64_t now_s) {
  keep_text(folder, key, kind, fmt::format("{} {}", fmt::join(numbers, " "), measured_s), measured_s, now_s);
}

void keep_numbers(const std::string& folder, const MeasurementKey& key, Kind kind, std::span<const double> numbers, std::int64_t now_s) {
  keep_numbers(folder, key, kind, numbers, now_s, now_s);
}

}  // namespace

std::string MeasurementKey::name(const char* kind) const {
  std::string name = fmt::format("{}-{:016x}-{}-{}t-{}of{}-{}{}{}", host, fingerprint, isa, threads, local_rank, local_size,
                                 kNumaNames.at(static_cast<std::size_t>(numa)), units.empty() ? "" : "-" + units, kind);
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return !std::isalnum(c) && c != '-' && c != '.'; }, '_');
  return name;
}

std::string measurement_folder() {
  if (const std::string cache = environment("XDG_CACHE_HOME"); cache.starts_with('/')) return cache + "/yamata";
  const std::string home = environment("HOME");
  std::error_code unseen;
  return std::filesystem::is_directory(home, unseen) ? home + "/.cache/yamata" : "";
}

/// Pairs of a speed and the time of its measurement.
std::vector<MeasuredSpeed> read_speeds(const std::string& folder, const MeasurementKey& key, std::int64_t now_s) {
  std::istringstream in{std::string(KeptValues(folder).find(key.name(kSpeed.name)))};
  std::string word;
  if (!(in >> word) || word != kSpeed.first_word) return {};
  std::vector<MeasuredSpeed> speeds;
  for (MeasuredSpeed speed; in >> speed.ns_per_byte;) {
    if (!(in >> speed.measured_s) || !std::isfinite(speed.ns_per_byte) || speed.ns_per_byte <= 0 || speed.measured_s > now_s) return {};
    if (speed.measured_s > now_s - kKept_s) speeds.push_back(speed);
  }
  return in.eof() ? speeds : std::vector<MeasuredSpeed>{};
}

void keep_speeds(const std::string& folder, const MeasurementKey& key, std::span<const MeasuredSpeed> speeds, std::int64_t now_s) {
  std::vector<std::string> pairs;
  for (const MeasuredSpeed& speed : speeds) pairs.push_back(fmt::format("{} {}", speed.ns_per_byte, speed.measured_s));
  const std::int64_t latest_s = speeds.empty() ? 0 : std::ranges::max(speeds, {}, &MeasuredSpeed::measured_s).measured_s;
  keep_text(folder, key, kSpeed, fmt::format("{}", fmt::join(pairs, " ")), latest_s, now_s);
}

bool agrees(std::span<const MeasuredSpeed> kept, double check) {
  constexpr double kAgreement = 1.0 / 3;
  return !kept.empty() && std::abs(check / median_ns_per_byte(kept) - 1) <= kAgreement;
}

std::vector<MeasuredSpeed> with_latest(std::vector<MeasuredSpeed> kept, MeasuredSpeed latest) {
  constexpr std::size_t kMaxKept = 5;
  kept.push_back(latest);
  if (kept.size() > kMaxKept) kept.erase(kept.begin(), kept.end() - kMaxKept);
  return kept;
}

double median_ns_per_byte(std::span<const MeasuredSpeed> speeds) {
  std::vector<double> numbers;
  for (const MeasuredSpeed& speed : speeds) numbers.push_back(speed.ns_per_byte);
  return median(std::move(numbers));
}

std::optional<std::vector<double>> read_width_multiples(const std::string& folder, const MeasurementKey& key, std::int64_t now_s) {
  const auto kept = read_numbers(folder, key, kWidths, kProbedWidths.size(), now_s);
  return kept ? std::optional(kept->numbers) : std::nullopt;
}

void keep_width_multiples(const std::string& folder, const MeasurementKey& key, std::span<const double> multiples, std::int64_t now_s) {
  keep_numbers(folder, key, kWidths, multiples, now_s);
}

namespace {

/// Whether steps can have these sums, in which older steps weigh less.
bool plausible(const DraftSums& s) {
  constexpr double kMaxSteps = 501;  // DraftBalance forgets: the weights of all steps add up to 500
  constexpr double kMax = 1000;      // tokens of a step, and its time in tokens without guesses; a longer pause says nothing
  const auto of_steps = [&](double sum) { return sum >= s.steps / kMax && sum <= s.steps * kMax; };
  return s.steps > 0 && s.steps <= kMaxSteps && of_steps(s.tokens) && of_steps(s.times) && s.own >= 0 && s.own <= s.tokens &&
         s.costs >= 0 && s.costs <= s.times;  // all false for NaN
}

}  // namespace

std::optional<Savings> read_savings(const std::string& folder, const MeasurementKey& key, std::int64_t now_s) {
  const auto kept = read_numbers(folder, key, kSavings, 5, now_s);
  if (!kept) return std::nullopt;
  const std::vector<double>& n = kept->numbers;
  const Savings savings{{.steps = n[0], .tokens = n[1], .own = n[2], .times = n[3], .costs = n[4]}, kept->written_s};
  return plausible(savings.sums) ? std::optional(savings) : std::nullopt;
}

void keep_savings(const std::string& folder, const MeasurementKey& key, const Savings& savings, std::int64_t now_s) {
  const DraftSums& s = savings.sums;
  if (!plausible(s)) return;
  keep_numbers(folder, key, kSavings, std::vector{s.steps, s.tokens, std::max(s.own, kMinNumber), s.times, std::max(s.costs, kMinNumber)},
               savings.since_s, now_s);
}

std::optional<Link> read_link(const std::string& folder, const MeasurementKey& key, std::int64_t now_s) {
  const auto kept = read_numbers(folder, key, kLink, 3, now_s);
  return kept ? std::optional(Link{kept->numbers[0], kept->numbers[1], kept->numbers[2]}) : std::nullopt;
}

void keep_link(const std::string& folder, const MeasurementKey& key, const Link& link, std::int64_t now_s) {
  // A rank that was awake has no wake-up time.
  const std::vector<double> numbers{std::max(link.latency_s, kMinNumber), std::max(link.wake_up_s, kMinNumber), link.bytes_per_s};
  keep_numbers(folder, key, kLink, numbers, now_s);
}

std::optional<GroupCost> read_group_cost(const std::string& folder, const MeasurementKey& key, std::int64_t now_s) {
  const auto kept = read_numbers(folder, key, kGroup, 2, now_s);
  return kept ? std::optional(GroupCost{key.threads, kept->numbers[0], std::llround(kept->numbers[1])}) : std::nullopt;
}

void keep_group_cost(const std::string& folder, const MeasurementKey& key, const GroupCost& cost, std::int64_t now_s) {
  const std::vector<double> numbers{cost.computing, static_cast<double>(cost.exchange)};
  keep_numbers(folder, key, kGroup, numbers, now_s);
}

namespace {

MeasurementKey pair_key(std::uint64_t target, std::uint64_t draft, const std::string& kind = {}) {
  return {.host = "draft", .isa = fmt::format("{:016x}", draft), .fingerprint = target, .units = kind};
}

}  // namespace

std::optional<FirstChoices> read_first_choices(const std::string& folder, std::uint64_t target, std::uint64_t draft, std::int64_t now_s) {
  const auto kept = read_numbers(folder, pair_key(target, draft), kFirstChoices, 3, now_s);
  if (!kept) return std::nullopt;
  return FirstChoices{std::min(kept->numbers[0], 1.0), std::min(kept->numbers[1], 1.0), kept->numbers[2]};
}

void keep_first_choices(const std::string& folder, std::uint64_t target, std::uint64_t draft, const FirstChoices& first,
                        std::int64_t now_s) {
  const std::vector<double> numbers{first.right, first.probability, first.cost};
  keep_numbers(folder, pair_key(target, draft), kFirstChoices, numbers, now_s);
}

std::optional<ForecastError> read_forecast_error(const KeptValues& values, std::uint64_t target, std::uint64_t draft,
                                                 const std::string& kind, std::int64_t now_s) {
  const auto kept = read_numbers(values, pair_key(target, draft, kind), kForecast, 2, now_s);
  return kept ? std::optional(ForecastError{kept->numbers[0], kept->numbers[1]}) : std::nullopt;
}

void keep_forecast_error(const std::string& folder, std::uint64_t target, std::uint64_t draft, const std::string& kind,
                         const ForecastError& error, std::int64_t now_s) {
  const std::vector<double> numbers{error.jobs, error.mean};
  keep_numbers(folder, pair_key(target, draft, kind), kForecast, numbers, now_s);
}

std::optional<KeptThreads> read_thread_choice(const std::string& folder, const MeasurementKey& key, std::int64_t now_s) {
  const auto kept = read_numbers(folder, key, kThreads, 1, now_s);
  if (!kept || kept->numbers[0] != std::floor(kept->numbers[0]) || kept->numbers[0] > 1024) return std::nullopt;
  return KeptThreads{static_cast<int>(kept->numbers[0]), kept->written_s};
}

void keep_thread_choice(const std::string& folder, const MeasurementKey& key, int threads, std::int64_t now_s) {
  const double number = threads;
  keep_numbers(folder, key, kThreads, {&number, 1}, now_s);
}

}  // namespace yamata
