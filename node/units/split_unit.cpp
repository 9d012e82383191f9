#include "node/units/split_unit.hpp"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "node/cpu/cpu_unit.hpp"

namespace yamata {
namespace {

using SteadyClock = std::chrono::steady_clock;

const std::atomic<bool> kRaised{true};

std::vector<double> shares_of(const std::vector<UnitPart>& parts) {
  std::vector<double> shares;
  for (const UnitPart& part : parts) shares.push_back(part.share);
  return shares;
}

/// The index of the device; 0 if there is none.
std::size_t device_of(const std::vector<UnitPart>& parts) {
  const auto device = std::ranges::find_if(parts, &UnitPart::device);
  return device == parts.end() ? 0 : static_cast<std::size_t>(device - parts.begin());
}

std::vector<std::unique_ptr<ComputeUnit>> units_of(std::vector<UnitPart>& parts) {
  std::vector<std::unique_ptr<ComputeUnit>> units;
  for (UnitPart& part : parts) units.push_back(std::move(part.unit));
  return units;
}

}  // namespace

SplitUnit::SplitUnit(std::vector<UnitPart> parts, bool adapts, int spins)
    : units_(units_of(parts)),
      dense_unit_(device_of(parts)),
      memory_(*units_[dense_unit_]),
      shares_(shares_of(parts), adapts),
      barrier_(static_cast<int>(units_.size()), spins),
      cutter_(units_, memory_, barrier_, shares_),
      progress_at_start_(units_.size(), 0),
      busy_at_start_(units_.size(), 0) {
  for (UnitPart& part : parts) names_.push_back(std::move(part.name));
  for (std::size_t unit = 0; unit < units_.size(); ++unit) units_[unit]->when_finished([this, unit] { ended(unit); });
}

SplitUnit::~SplitUnit() {
  std::unique_lock lock(mutex_);
  ended_.wait(lock, [this] { return finished(); });
  lock.unlock();
  for (const auto& unit : units_) unit->when_finished(nullptr);
}

/// Of each unit: its quantized input, and two slices, which alternate.
std::uint64_t SplitUnit::scratch_bytes(const ScratchNeeds& needs, int units) {
  const auto slices = static_cast<std::uint64_t>(needs.rows * needs.widest) * 40 / 32;
  return static_cast<std::uint64_t>(units - 1) * CpuUnit::scratch_bytes(needs, 1) + 2 * slices;
}

void SplitUnit::start(std::span<const Op> ops, const std::atomic<bool>* stop) {
  progress_before_ = progress();
  ops_ = 0;
  for (std::size_t unit = 0; unit < units_.size(); ++unit) {
    progress_at_start_[unit] = units_[unit]->progress();
    busy_at_start_[unit] = units_[unit]->busy_seconds();
  }
  cutter_.cut(ops);
  barrier_.begin({.label = cutter_.labels(), .labels = shares_.labels(), .stop = stop, .in_group = cutter_.in_group()});
  // Whether to stop a run is decided for all units together: before the run, and at its synchronizations. Without these, each unit decides
  // for itself.
  const bool alone = cutter_.barriers() == 0;
  if (!alone) stop = stop && stop->load() ? &kRaised : nullptr;
  ops_ = ops.size();
  settled_ = false;
  error_ = nullptr;
  running_ = static_cast<int>(units_.size());
  std::size_t started = 0;
  try {
    for (; started < units_.size(); ++started) units_[started]->start(cutter_.list(started), stop);
  } catch (...) {  // units that have started must not wait for the others
    barrier_.abandon();
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [&] { return running_ == static_cast<int>(units_.size() - started); });
    running_ = 0;
    settled_ = true;
    throw;
  }
}

/// Called on a thread of the unit. If it has failed, the others stop waiting for it.
void SplitUnit::ended(std::size_t unit) {
  if (barrier_.arrivals(static_cast<int>(unit)) < cutter_.barriers()) barrier_.abandon();
  const std::lock_guard lock(mutex_);
  --running_;
  ended_.notify_all();
  if (running_ == 0 && told_) told_();
}

void SplitUnit::when_finished(std::function<void()> told) {
  const std::lock_guard lock(mutex_);
  told_ = std::move(told);
}

bool SplitUnit::wait_for(std::chrono::microseconds limit) {
  {
    std::unique_lock lock(mutex_);
    if (!ended_.wait_for(lock, limit, [this] { return finished(); })) return false;
  }
  for (const auto& unit : units_) {
    try {
      unit->wait_for(std::chrono::microseconds(0));
    } catch (...) {
      if (!error_) error_ = std::current_exception();
    }
  }
  if (!std::exchange(settled_, true)) settle();
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  return true;
}

/// Updates statistics and shares after a run.
void SplitUnit::settle() {
  double busy = 0;
  for (std::size_t unit = 0; unit < units_.size(); ++unit) busy = std::max(busy, units_[unit]->busy_seconds() - busy_at_start_[unit]);
  busy_seconds_ += busy;
  if (was_stopped() || error_) return;
  const double now_s = std::chrono::duration<double>(SteadyClock::now().time_since_epoch()).count();
  std::vector<double> seconds(units_.size());
  for (int label = 1; label < static_cast<int>(shares_.labels()); ++label) {
    for (std::size_t unit = 0; unit < units_.size(); ++unit) seconds[unit] = barrier_.computed_s(label, static_cast<int>(unit));
    shares_.computed(label, seconds, now_s);
  }
}

bool SplitUnit::was_stopped() const {
  return std::ranges::any_of(units_, [](const auto& unit) { return unit->was_stopped(); });
}

std::uint64_t SplitUnit::progress() const {
  std::size_t ended = ops_;
  for (std::size_t unit = 0; unit < units_.size(); ++unit)
    ended = std::min(ended, cutter_.ended(unit, units_[unit]->progress() - progress_at_start_[unit]));
  return progress_before_ + ended;
}

std::string SplitUnit::device() const {
  const std::vector<double> shares = shares_.overall();
  std::string device;
  for (std::size_t unit = 0; unit < units_.size(); ++unit) {
    char share[16];
    std::snprintf(share, sizeof(share), "=%.2g", shares[unit]);
    device += (unit > 0 ? "+" : "") + names_[unit] + share;
  }
  return device;
}

std::string SplitUnit::isa() const {
  std::string all = units_.front()->isa();
  for (const auto& unit : units_)
    if (all.find(unit->isa()) == std::string::npos) all += "+" + unit->isa();
  return all;
}

int SplitUnit::threads() const {
  int threads = 0;
  for (const auto& unit : units_) threads += unit->threads();
  return threads;
}

void SplitUnit::slow_down(double factor) {
  for (const auto& unit : units_) unit->slow_down(factor);
}

}  // namespace yamata
