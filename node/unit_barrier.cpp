#include "node/unit_barrier.hpp"

#include <algorithm>

#include "node/compute_unit.hpp"
#include "node/spin_wait.hpp"

namespace yamata {

UnitBarrier::UnitBarrier(int units, int spins) : spins_(spins), places_(static_cast<std::size_t>(units)) {}

void UnitBarrier::begin(const Run& run) {
  run_ = run;
  computed_s_.assign(run.labels * places_.size(), 0);
  for (Place& place : places_) place.arrivals.store(0, std::memory_order_relaxed);
  arrived_.store(0, std::memory_order_relaxed);
  declined_ = abandoned_ = false;
  goes_on_ = true;
  released_ = Clock::now();
}

bool UnitBarrier::wait(int own, bool go_on, const std::function<bool(bool)>& last) {
  Place& place = places_[static_cast<std::size_t>(own)];
  const std::uint32_t generation = generation_.load(std::memory_order_acquire);
  if (abandoned_.load()) return false;
  if (!go_on) declined_.store(true, std::memory_order_relaxed);
  place.came = Clock::now();
  const std::size_t barrier = place.arrivals.fetch_add(1, std::memory_order_release);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 < units()) {
    wait_while(generation_, generation, spins_);
    return !abandoned_.load() && goes_on_;
  }
  add_up(barrier);
  if (run_.stop && run_.stop->load(std::memory_order_relaxed)) declined_.store(true, std::memory_order_relaxed);
  goes_on_ = !declined_.load(std::memory_order_relaxed) || (run_.in_group && !last);
  if (last) {
    try {
      goes_on_ = last(goes_on_);
    } catch (...) {
      abandon();
      throw;
    }
    released_ = Clock::now();
  } else {
    released_ = place.came;
  }
  const bool goes_on = goes_on_ && !abandoned_.load();
  arrived_.store(0, std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  return goes_on;
}

void UnitBarrier::add_up(std::size_t barrier) {
  if (barrier >= run_.label.size()) return;
  double* sums = computed_s_.data() + static_cast<std::size_t>(run_.label[barrier]) * places_.size();
  for (std::size_t unit = 0; unit < places_.size(); ++unit)
    sums[unit] += std::chrono::duration<double>(places_[unit].came - released_).count();
}

void UnitBarrier::abandon() {
  abandoned_ = true;
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
}

class MemberUnits::Unit final : public GroupExchange {
 public:
  Unit(MemberUnits& member, int own, bool in_group) : member_(member), own_(own), in_group_(in_group) {}
  int members() const override { return group() ? group()->members() : 1; }
  int own() const override { return group() ? group()->own() : 0; }
  bool all_gather(std::span<std::byte> slices, std::span<const std::size_t> ends, bool go_on) override {
    ++exchanges();
    if (!group()) return member_.barrier_.wait(own_, go_on);
    return member_.barrier_.wait(own_, go_on, [&](bool all) { return group()->all_gather(slices, ends, all); });
  }
  std::span<std::byte> shared_slices(std::size_t bytes, std::size_t ahead) override {
    return member_.slices_[(exchanges() + ahead) % 2]->host().first(bytes);
  }
  void abandon() override { member_.barrier_.abandon(); }

 private:
  GroupExchange* group() const { return in_group_ ? member_.group_ : nullptr; }
  std::size_t& exchanges() { return member_.exchanges_[static_cast<std::size_t>(own_)]; }

  MemberUnits& member_;
  const int own_;
  const bool in_group_;
};

MemberUnits::MemberUnits(UnitBarrier& barrier, ComputeUnit& memory) : barrier_(barrier), memory_(memory) {
  for (int own = 0; own < barrier.units(); ++own) {
    in_group_.push_back(std::make_unique<Unit>(*this, own, true));
    among_units_.push_back(std::make_unique<Unit>(*this, own, false));
  }
}

void MemberUnits::begin(GroupExchange* group) {
  group_ = group;
  exchanges_.assign(in_group_.size(), 0);
}

void MemberUnits::reserve(std::size_t slice_bytes) {
  for (auto& slices : slices_)
    if (!slices || slices->host().size() < slice_bytes) slices = memory_.allocate(slice_bytes, BufferUse::kActivations);
}

}  // namespace yamata
