#pragma once
// Where the units of a machine meet that compute lists of operations together, each its part of every operation.
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

/// All units do the same meetings of a run in the same order, each with one thread.
class UnitMeeting {
 public:
  using Clock = std::chrono::steady_clock;

  /// `spins`: how often a unit looks for the others before it sleeps.
  UnitMeeting(int units, int spins);

  /// What is known before a run.
  struct Run {
    std::span<const int> label{};             ///< of each meeting: what the units compute before it
    std::size_t labels = 1;                   ///< are below this
    const std::atomic<bool>* stop = nullptr;  ///< whoever comes last looks at it for all
    bool in_group = false;                    ///< of ranks, which must hear of it where one leaves: only meetings with a `last` end the run
  };
  /// Before it, while no unit is in one.
  void begin(const Run& run);
  /// Waits until all units have come: what each has written all see then. `last` is called by the last of them, and told whether all want
  /// to go on; what it returns, or else that, is returned to all.
  bool meet(int own, bool go_on, const std::function<bool(bool)>& last = nullptr);
  /// Nobody waits, nor will in this run, and all leave it. From any thread.
  void abandon();
  /// How many meetings of this run the unit has come to. From any thread.
  std::size_t met(int own) const { return places_[static_cast<std::size_t>(own)].met.load(std::memory_order_acquire); }

  int units() const { return static_cast<int>(places_.size()); }
  /// After a run: seconds that the unit has computed before meetings of this label, waiting left out.
  double computed_s(int label, int own) const {
    const std::size_t at = static_cast<std::size_t>(label) * places_.size() + static_cast<std::size_t>(own);
    return at < computed_s_.size() ? computed_s_[at] : 0;
  }

 private:
  struct alignas(64) Place {
    Clock::time_point came;
    std::atomic<std::size_t> met{0};
  };
  void add_up(std::size_t meeting);

  const int spins_;
  std::vector<Place> places_;
  alignas(64) std::atomic<int> arrived_{0};
  std::atomic<bool> declined_{false}, abandoned_{false};
  alignas(64) std::atomic<std::uint32_t> generation_{0};
  // Written by the last to come, before it lets the others go.
  bool goes_on_ = true;
  Clock::time_point released_;
  Run run_;
  std::vector<double> computed_s_;  // [label][unit]
};

/// What the units of a member of a group see of it: they write the member's slice together, and one of them does the exchange. What the
/// group need not know of they exchange likewise among themselves: as the one member of a group of its own.
class MemberUnits {
 public:
  /// `memory`: a unit whose memory all of them know.
  MemberUnits(UnitMeeting& meeting, ComputeUnit& memory);
  /// Before a run: the group whose meetings it has, or null.
  void begin(GroupExchange* group);
  /// Before it, too: the most bytes of slices. Throws std::bad_alloc.
  void reserve(std::size_t slice_bytes);
  GroupExchange& in_group(int own) { return *in_group_[static_cast<std::size_t>(own)]; }
  GroupExchange& among_units(int own) { return *among_units_[static_cast<std::size_t>(own)]; }

 private:
  class Unit;
  UnitMeeting& meeting_;
  ComputeUnit& memory_;
  GroupExchange* group_ = nullptr;
  std::vector<std::unique_ptr<GroupExchange>> in_group_, among_units_;
  std::vector<std::size_t> exchanges_;  // of each unit, of both kinds
  // Two in turn: who is late in an exchange still reads its slices when others write those of the next.
  std::unique_ptr<Buffer> slices_[2];
};

}  // namespace yamata
