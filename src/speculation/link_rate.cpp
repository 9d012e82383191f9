#include "src/speculation/link_rate.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace yamata {
namespace {

constexpr double kMinRow_s = 50e-6, kMaxRow_s = 0.5,
                 kNext = 1.25;                 // seconds a row, each so many times the one before: 8 KB at 1.3 Gbit/s to 130 kbit/s
constexpr std::array kSlowest{1.0, 1.4, 2.0};  // times the head's stage
constexpr double kForget = 0.98;               // weight that a run's error keeps with each later one: the last 50 count
constexpr double kRunWeight = 0.05;            // weight of the latest run in the latency
constexpr double kAlike = 0.02;                // of a stage's time: rates whose errors differ by no more a run explain it alike
constexpr double kExpected = 50;               // rows by which a rate that is not expected is wrong at first

}  // namespace

LinkRate::LinkRate(int stages, double result_share) : result_share_(result_share) {
  const auto count = static_cast<std::size_t>(stages);
  const auto add = [&](double row_s) {
    for (const double slowest : kSlowest) {
      rates_.push_back(
          {.row_s = row_s, .slowest = slowest, .stage_free_s = std::vector<double>(count), .link_free_s = std::vector<double>(count)});
    }
  };
  add(0);
  for (double row_s = kMinRow_s; stages > 1 && row_s < kMaxRow_s; row_s *= kNext) add(row_s);
}

void LinkRate::expect(double row_s) {
  for (Replay& rate : rates_) rate.error_s += kExpected * std::max(0.0, row_s - rate.row_s);
  while (current_ + 1 < rates_.size() && rates_[current_ + 1].row_s <= row_s) ++current_;
}

/// When the result would be back if messages took no time beside that on the links. The clock of each stage is late by the latency up to
/// it.
double LinkRate::replay(Replay& rate, const ReturnedRun& run) const {
  const auto stages = rate.stage_free_s.size();
  const double hop_s = rate.latency_s / static_cast<double>(stages);
  double now = run.sent_s;
  bool left = false;
  for (std::size_t s = 0; s < stages; ++s) {
    const double hops = s == 0 ? 0 : static_cast<double>(run.told_backward ? stages - s : 1) - static_cast<double>(s);
    const double told = run.skipped ? run.cancelled_s + hop_s * hops : run.cancelled_s;
    now = std::max(now, rate.stage_free_s[s]);
    const double end = now + (left ? 0 : run.stage_s * (s == 1 ? rate.slowest : 1));
    left |= run.skipped && told < end;
    rate.stage_free_s[s] = now = left ? std::clamp(told, now, end) : end;
    const double row_s = s + 1 < stages ? rate.row_s : result_share_ * rate.row_s;
    rate.link_free_s[s] = now = std::max(now, rate.link_free_s[s]) + (left ? 0 : run.rows * row_s);
  }
  return now;
}

/// What runs still wait for ends so much later. When the first stage is free the head knows, or it would not have sent the next.
void LinkRate::shift(Replay& rate, double late_s) {
  for (std::size_t s = late_s > 0 ? 1 : 0; s < rate.stage_free_s.size(); ++s) rate.stage_free_s[s] += late_s;
  for (double& free_s : rate.link_free_s) free_s += late_s;
}

void LinkRate::returned(const ReturnedRun& run) {
  if (!run.skipped) ++runs_;
  const double weight = std::max(kRunWeight, 1 / std::max(1.0, runs_));
  for (Replay& rate : rates_) {
    const double left_s = run.returned_s - replay(rate, run);
    // What is true of this run is true of those behind it.
    const double late_s = run.skipped ? std::min(0.0, left_s) : left_s - rate.latency_s;
    if (runs_ > 1 || late_s < 0) shift(rate, late_s);
    if (run.skipped) continue;
    if (runs_ > 1) rate.error_s += std::abs(left_s - rate.latency_s);
    rate.latency_s += weight * (std::max(0.0, left_s) - rate.latency_s);
    rate.error_s *= kForget;
  }
  if (!run.skipped) choose(run.stage_s);
}

/// The least rate that explains the results as well as any.
void LinkRate::choose(double stage_s) {
  const auto worse = [](const Replay& a, const Replay& b) { return a.error_s < b.error_s; };
  const double least_s = std::min_element(rates_.begin(), rates_.end(), worse)->error_s;
  const double alike_s = kAlike * stage_s / (1 - kForget);
  current_ = 0;
  while (rates_[current_].error_s > least_s + alike_s) ++current_;
}

double most_link_s(int stages, int chunks, int rows, double stage_s, double prompt_s) {
  if (stages < 2 || rows < 1) return 0;
  const double left_s = prompt_s - stage_s * (chunks + stages - 1);
  return std::max(0.0, left_s) * chunks / (static_cast<double>(rows) * (chunks + stages - 2));
}

}  // namespace yamata
