#pragma once
// Where simulated ranks that share a layer meet: nobody waits in it, each looks whether the others have come.
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>

#include "node/group_exchange.hpp"

namespace yamata::simulation {

/// What the members of one group share.
struct MeetingPoint {
  explicit MeetingPoint(int members) : members(members) {}

  struct Exchange {
    int arrived = 0, seen = 0;
    bool go_on = true;
  };
  const int members;
  std::map<std::uint64_t, Exchange> exchanges;  // those that not all have seen the outcome of
};

class Meeting final : public GroupExchange {
 public:
  Meeting(std::shared_ptr<MeetingPoint> point, int own) : point_(std::move(point)), own_(own) {}
  int members() const override { return point_->members; }
  int own() const override { return own_; }
  bool all_gather(std::span<std::byte>, std::span<const std::size_t>, bool) override {
    throw std::logic_error("simulated ranks exchange no slices");
  }
  void abandon() override {}

  /// Comes to the next meeting.
  void arrive(bool go_on) {
    MeetingPoint::Exchange& exchange = point_->exchanges[++exchange_];
    ++exchange.arrived;
    exchange.go_on &= go_on;
    waits_ = true;
  }
  /// Since arrive, until outcome has told.
  bool waits() const { return waits_; }
  /// Once all have come: whether all go on.
  std::optional<bool> outcome() {
    const auto found = point_->exchanges.find(exchange_);
    if (found->second.arrived < point_->members) return std::nullopt;
    const bool go_on = found->second.go_on;
    if (++found->second.seen == point_->members) point_->exchanges.erase(found);
    waits_ = false;
    return go_on;
  }
  const MeetingPoint* point() const { return point_.get(); }

 private:
  const std::shared_ptr<MeetingPoint> point_;
  const int own_;
  std::uint64_t exchange_ = 0;
  bool waits_ = false;
};

}  // namespace yamata::simulation
