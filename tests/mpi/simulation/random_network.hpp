#pragma once
// Messages and units of simulated ranks; a scheduler decides when messages arrive and when units compute.
#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <stdexcept>
#include <tuple>

#include "mpi/protocol/wire.hpp"
#include "mpi/transport/transport.hpp"
#include "src/simulation/table_model.hpp"

namespace yamata::test {

using Random = std::mt19937_64;

/// Messages in flight: in order per source, destination and tag, otherwise in the scheduler's order.
class Network {
 public:
  explicit Network(int ranks) : arrived_(static_cast<std::size_t>(ranks)) {}
  void send(int from, int to, Tag tag, wire::Bytes bytes) {
    if (from == to) {
      arrived_[static_cast<std::size_t>(to)].push_back({from, tag, std::move(bytes)});
    } else {
      under_way_[{from, to, tag}].push_back({from, tag, std::move(bytes)});
    }
  }
  std::optional<Message> receive(int rank) {
    auto& box = arrived_[static_cast<std::size_t>(rank)];
    if (box.empty()) return std::nullopt;
    Message message = std::move(box.front());
    box.pop_front();
    return message;
  }
  bool deliver_one(Random& random) {
    if (under_way_.empty()) return false;
    auto line = under_way_.begin();
    std::advance(line, static_cast<std::ptrdiff_t>(random() % under_way_.size()));
    arrived_[static_cast<std::size_t>(std::get<1>(line->first))].push_back(std::move(line->second.front()));
    line->second.pop_front();
    if (line->second.empty()) under_way_.erase(line);
    return true;
  }
  /// Makes a new exchange each time that all of these ranks have joined.
  std::unique_ptr<GroupExchange> join_group(std::span<const int> ranks, int model, int rank) {
    const std::vector<int> group(ranks.begin(), ranks.end());
    const int time = joined_[{group, model, rank}]++;
    auto& point = exchanges_[{group, model, time}];
    if (!point) point = std::make_shared<simulation::ExchangePoint>(static_cast<int>(group.size()));
    const auto own = std::find(group.begin(), group.end(), rank) - group.begin();
    return std::make_unique<simulation::VirtualExchange>(point, static_cast<int>(own));
  }
  bool silent() const {
    return under_way_.empty() && std::all_of(arrived_.begin(), arrived_.end(), [](const auto& box) { return box.empty(); });
  }

 private:
  std::map<std::tuple<int, int, Tag>, std::deque<Message>> under_way_;
  std::vector<std::deque<Message>> arrived_;
  std::map<std::tuple<std::vector<int>, int, int>, int> joined_;  // by ranks, model and rank: number of calls
  std::map<std::tuple<std::vector<int>, int, int>, std::shared_ptr<simulation::ExchangePoint>> exchanges_;
};

class SimulatedTransport final : public Transport {
 public:
  SimulatedTransport(Network& network, int rank, int size) : network_(network), rank_(rank), size_(size) {}
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void send(int to, Tag tag, std::vector<std::byte> bytes) override { network_.send(rank_, to, tag, std::move(bytes)); }
  std::optional<Message> receive() override { return network_.receive(rank_); }
  std::size_t pending_sends() const override { return 0; }
  std::uint64_t bytes_sent() const override { return 0; }
  void forget(int rank) override { forgotten_.insert(rank); }
  bool forgotten(int rank) const override { return forgotten_.contains(rank); }
  std::unique_ptr<GroupExchange> join_group(std::span<const int> ranks, int model) override {
    return network_.join_group(ranks, model, rank_);
  }
  void abort(int) override { throw std::logic_error("abort in a simulation"); }

 private:
  Network& network_;
  int rank_, size_;
  std::set<int> forgotten_;
};

/// Computes one operation per tick; after a stop, the remaining operations are not computed. In a group, an operation ends when all members
/// have reached its end.
class SteppedUnit final : public simulation::TableUnit {
 public:
  void begin(const simulation::TableShape& shape, std::size_t rows, const std::atomic<bool>* stop,
             std::function<void(bool completed)> done) override {
    if (busy()) throw std::logic_error("the unit is busy: two stages use it at a time");
    left_ = rows > 0 ? shape.operations : 1;
    was_stopped_ = false;
    exchange_ = rows > 0 ? shape.exchange : nullptr;
    stop_ = stop;
    done_ = std::move(done);
  }
  /// Computes one operation, unless the unit is idle.
  void tick() {
    if (!busy()) return;
    if (exchange_) return advance_exchange();
    ++progress_;
    --left_;
    end_operation(stop_ && *stop_ && left_ > 0);
  }
  bool busy() const { return left_ > 0; }

  bool finished() const override { return !busy(); }
  bool was_stopped() const override { return was_stopped_; }
  bool wait_for(std::chrono::microseconds) override {
    if (exchange_) left_ = 0;  // the members do not wait for each other any more
    tick();
    return !busy();
  }
  std::uint64_t progress() const override { return progress_; }
  double busy_seconds() const override { return 0; }

 private:
  void advance_exchange() {
    if (!exchange_->waits()) return exchange_->arrive(!(stop_ && *stop_));
    const auto go_on = exchange_->outcome();
    if (!go_on) return;
    ++progress_;
    --left_;
    end_operation(!*go_on);
  }
  void end_operation(bool leaves) {
    was_stopped_ = leaves;
    if (leaves) left_ = 0;
    if (left_ == 0) done_(!leaves);
  }

  int left_ = 0;
  bool was_stopped_ = false;
  simulation::VirtualExchange* exchange_ = nullptr;
  const std::atomic<bool>* stop_ = nullptr;
  std::function<void(bool)> done_;
  std::uint64_t progress_ = 0;
};

/// Logits after the prefix with this hash.
inline void table_logits(std::uint64_t prefix, std::uint64_t seed, std::span<float> logits) {
  using simulation::mix;
  for (std::size_t v = 0; v < logits.size(); ++v) logits[v] = static_cast<float>(4 * simulation::share(mix(mix(prefix, seed), v)));
}

}  // namespace yamata::test
