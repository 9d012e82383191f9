#pragma once
// The exchange of simulated ranks that share a layer. It does not block: each rank checks whether the others have arrived.
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>

#include "node/group_exchange.hpp"

namespace yamata::simulation {

/// The shared state of the members of a group.
struct ExchangePoint {
  explicit ExchangePoint(int members) : members(members) {}

  struct Exchange {
    int arrived = 0, seen = 0;
    bool go_on = true;
  };
  const int members;
  std::map<std::uint64_t, Exchange> exchanges;  // those whose outcome not all members have read
};

class VirtualExchange final : public GroupExchange {
 public:
  VirtualExchange(std::shared_ptr<ExchangePoint> point, int own) : point_(std::move(point)), own_(own) {}
  int members() const override { return point_->members; }
  int own() const override { return own_; }
  bool all_gather(std::span<std::byte>, std::span<const std::size_t>, bool) override {
    throw std::logic_error("simulated ranks exchange no slices");
  }
  void abandon() override {}

  /// Arrives at the next exchange.
  void arrive(bool go_on) {
    ExchangePoint::Exchange& exchange = point_->exchanges[++exchange_];
    ++exchange.arrived;
    exchange.go_on &= go_on;
    waits_ = true;
  }
  /// True from arrive() until outcome() has returned a value.
  bool waits() const { return waits_; }
  /// When all members have arrived: whether all continue.
  std::optional<bool> outcome() {
    const auto found = point_->exchanges.find(exchange_);
    if (found->second.arrived < point_->members) return std::nullopt;
    const bool go_on = found->second.go_on;
    if (++found->second.seen == point_->members) point_->exchanges.erase(found);
    waits_ = false;
    return go_on;
  }
  const ExchangePoint* point() const { return point_.get(); }

 private:
  const std::shared_ptr<ExchangePoint> point_;
  const int own_;
  std::uint64_t exchange_ = 0;
  bool waits_ = false;
};

}  // namespace yamata::simulation
