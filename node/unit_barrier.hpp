#pragma once
// Synchronization between the units of a machine that compute lists of operations together, each unit a part of every operation.
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "node/buffer.hpp"
#include "node/group_exchange.hpp"

namespace yamata {

class ComputeUnit;

/// All units go through the same barriers of a run in the same order, each with one thread.
class UnitBarrier {
 public:
  using Clock = std::chrono::steady_clock;

  /// `spins`: how often a unit checks for the others before it sleeps.
  UnitBarrier(int units, int spins);

  /// The parameters of a run.
  struct Run {
    std::span<const int> label{};             ///< of each barrier: what the units compute before it
    std::size_t labels = 1;                   ///< labels are below this
    const std::atomic<bool>* stop = nullptr;  ///< read by the last unit to arrive, for all units
    /// the run is computed by a group of ranks, which must all know if it is stopped: only barriers with a `last` can stop it
    bool in_group = false;
  };
  /// Called before a run, while no unit is in a barrier.
  void begin(const Run& run);
  /// Waits until all units have arrived; then all see what each has written. The last unit to arrive calls `last` with whether all want to
  /// continue. Returns the result of `last` to all units; without `last`, whether all want to continue.
  bool wait(int own, bool go_on, const std::function<bool(bool)>& last = nullptr);
  /// Ends all current and future waits of this run, and all units stop it. From any thread.
  void abandon();
  /// The number of barriers of this run at which the unit has arrived. From any thread.
  std::size_t arrivals(int own) const { return places_[static_cast<std::size_t>(own)].arrivals.load(std::memory_order_acquire); }

  int units() const { return static_cast<int>(places_.size()); }
  /// After a run: seconds that the unit has computed before barriers with this label, without waiting.
  double computed_s(int label, int own) const {
    const std::size_t at = static_cast<std::size_t>(label) * places_.size() + static_cast<std::size_t>(own);
    return at < computed_s_.size() ? computed_s_[at] : 0;
  }

 private:
  struct alignas(64) Place {
    Clock::time_point came;
    std::atomic<std::size_t> arrivals{0};
  };
  void add_up(std::size_t barrier);

  const int spins_;
  std::vector<Place> places_;
  alignas(64) std::atomic<int> arrived_{0};
  std::atomic<bool> declined_{false}, abandoned_{false};
  alignas(64) std::atomic<std::uint32_t> generation_{0};
  // Written by the last unit to arrive, before it releases the others.
  bool goes_on_ = true;
  Clock::time_point released_;
  Run run_;
  std::vector<double> computed_s_;  // [label][unit]
};

/// A group's exchanges as seen by the units of one member: they write the member's slice together, and one of them does the exchange. For
/// data that other ranks do not need, the units do the same among themselves, as the only member of a group.
class MemberUnits {
 public:
  /// `memory`: a unit whose memory all units can access.
  MemberUnits(UnitBarrier& barrier, ComputeUnit& memory);
  /// Called before a run: the group whose exchanges the run has, or null.
  void begin(GroupExchange* group);
  /// Called before a run: the greatest number of bytes of slices. Throws std::bad_alloc.
  void reserve(std::size_t slice_bytes);
  GroupExchange& in_group(int own) { return *in_group_[static_cast<std::size_t>(own)]; }
  GroupExchange& among_units(int own) { return *among_units_[static_cast<std::size_t>(own)]; }

 private:
  class Unit;
  UnitBarrier& barrier_;
  ComputeUnit& memory_;
  GroupExchange* group_ = nullptr;
  std::vector<std::unique_ptr<GroupExchange>> in_group_, among_units_;
  std::vector<std::size_t> exchanges_;  // of each unit: exchanges of both kinds
  // Two alternating buffers: a late unit may still read the slices of an exchange when others write those of the next one.
  std::unique_ptr<Buffer> slices_[2];
};

}  // namespace yamata
