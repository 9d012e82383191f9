#include "node/units/layered_unit.hpp"

#include <algorithm>

namespace yamata {
namespace {

constexpr std::chrono::milliseconds kProgressPeriod{20};

}  // namespace

LayeredUnit::LayeredUnit(std::unique_ptr<ComputeUnit> first, std::unique_ptr<ComputeUnit> rest)
    : first_(std::move(first)), rest_(std::move(rest)) {}

void LayeredUnit::start(std::span<const Op> ops, const std::atomic<bool>* stop) {
  whole_ = {rest_.get(), ops.size()};
  start_parts(ops, {&whole_, 1}, stop);
}

void LayeredUnit::start_parts(std::span<const Op> ops, std::span<const ListPart> parts, const std::atomic<bool>* stop) {
  ops_ = ops;
  parts_ = parts;
  stop_ = stop;
  was_stopped_ = false;
  busy_.begin();
  pool_.start([this](int) { work(); });
}

/// If a group of ranks computes the list, a unit that wants to leave it announces that at the next exchange, even in another part.
/// Otherwise the list may also be left between two parts.
void LayeredUnit::work() {
  struct Ended {
    BusyTime& busy;
    ~Ended() { busy.end(); }
  } ended{busy_};
  const bool together = std::ranges::any_of(ops_, synchronizes);
  std::size_t begin = 0;
  for (const ListPart& part : parts_) {
    was_stopped_ = !together && begin > 0 && begin < ops_.size() && stop_ && stop_->load(std::memory_order_relaxed);
    if (was_stopped_) return;
    part.unit->start(ops_.subspan(begin, part.end - begin), stop_);
    while (!part.unit->wait_for(kProgressPeriod)) count_progress();
    count_progress();
    was_stopped_ = part.unit->was_stopped();
    if (was_stopped_) return;
    begin = part.end;
  }
}

bool LayeredUnit::wait_for(std::chrono::microseconds limit) {
  if (!pool_.wait_for(limit)) return false;
  busy_.count();
  return true;
}

std::unique_ptr<Buffer> LayeredUnit::allocate(std::size_t bytes, BufferUse use) {
  use = shared(use);
  return (use == BufferUse::kActivations ? *first_ : *rest_).allocate(bytes, use);
}

void LayeredUnit::slow_down(double factor) {
  first_->slow_down(factor);
  rest_->slow_down(factor);
}

}  // namespace yamata
