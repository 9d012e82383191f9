#include "mpi/simulation/virtual_network.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <stdexcept>

#include "mpi/protocol/wire.hpp"

namespace yamata::simulation {

VirtualNetwork::VirtualNetwork(int ranks, const NetworkOptions& options, const RowWidths& widths, std::int64_t logits)
    : options_(options), widths_(widths), table_logits_(logits), ranks_(static_cast<std::size_t>(ranks)) {}

void VirtualNetwork::plan(Nanoseconds at, Kind kind, int rank, std::uint64_t what) { events_.push({at, planned_++, kind, rank, what}); }

std::uint64_t VirtualNetwork::real_bytes(int from, const Message& message) const {
  static const std::size_t kHeader = wire::encode(wire::Rows{}).size();
  const auto rows = [&](std::int64_t width) { return (message.bytes.size() - kHeader) / sizeof(float) / static_cast<std::size_t>(width); };
  const auto scaled = [&](std::int64_t table, std::int64_t real) {
    return kHeader + rows(table) * sizeof(float) * static_cast<std::size_t>(real);
  };
  switch (message.tag) {
    case Tag::kActivations:
      return scaled(TableModel::kWidth,
                    widths_.activations.empty() ? widths_.hidden : widths_.activations.at(static_cast<std::size_t>(from)));
    case Tag::kLogits: {
      const wire::Rows rows = wire::decode_rows(message.bytes);
      const std::size_t table = rows.features.size_bytes();
      const std::uint64_t features = table / static_cast<std::size_t>(TableModel::kWidth) * static_cast<std::size_t>(widths_.hidden);
      if (!rows.tokens.empty()) return message.bytes.size() - table + features;
      const std::size_t logits = rows.values.size() / static_cast<std::size_t>(table_logits_);
      return message.bytes.size() - table - rows.values.size_bytes() + features +
             logits * sizeof(float) * static_cast<std::size_t>(widths_.vocabulary);
    }
    case Tag::kCommit: {
      const std::size_t table = wire::decode_commit(message.bytes).features.size() * sizeof(float);
      return message.bytes.size() - table + table / static_cast<std::size_t>(TableModel::kWidth) * static_cast<std::size_t>(widths_.hidden);
    }
    default:
      return message.bytes.size();
  }
}

void VirtualNetwork::send(int from, int to, Message message) {
  if (from == to) return ranks_[static_cast<std::size_t>(to)].arrived.push_back(std::move(message));
  Rank& sender = ranks_[static_cast<std::size_t>(from)];
  const std::uint64_t bytes = real_bytes(from, message);
  sender.bytes_sent += bytes;
  sender.link_free = std::max(sender.link_free, now_) + std::llround(1e9 * static_cast<double>(bytes) / options_.bytes_per_s);
  if (free_places_.empty()) {
    free_places_.push_back(under_way_.size());
    under_way_.emplace_back();
  }
  const std::size_t place = free_places_.back();
  free_places_.pop_back();
  under_way_[place] = std::move(message);
  plan(sender.link_free + options_.latency, Kind::kArrival, to, place);
}

void VirtualNetwork::wake(int index, Nanoseconds at) {
  Rank& rank = ranks_[static_cast<std::size_t>(index)];
  at = std::max(at, rank.free);
  if (rank.wakes >= 0 && rank.wakes <= at) return;
  rank.wakes = at;
  plan(at, Kind::kWake, index);
}

void VirtualNetwork::step_rank(int index, const std::function<bool(std::size_t)>& step) {
  Rank& rank = ranks_[static_cast<std::size_t>(index)];
  rank.wakes = -1;
  while (step(static_cast<std::size_t>(index))) {
  }
  rank.unit->notice_stop();
  rank.free = now_;
}

bool VirtualNetwork::advance(const std::function<bool(std::size_t rank)>& step) {
  if (events_.empty()) return false;
  const Event event = events_.top();
  events_.pop();
  now_ = event.at;
  Rank& rank = ranks_[static_cast<std::size_t>(event.rank)];
  switch (event.kind) {
    case Kind::kArrival:
      rank.arrived.push_back(std::move(under_way_[event.what]));
      free_places_.push_back(event.what);
      wake(event.rank, now_ + options_.wake_up);
      break;
    case Kind::kComputed:
      if (rank.unit->end(event.what, now_)) wake(event.rank, now_ + options_.wake_up);
      break;
    case Kind::kWake:
      if (event.at == rank.wakes) step_rank(event.rank, step);  // otherwise it woke earlier, or will wake later
      break;
    case Kind::kCall:
      wake(event.rank, now_ + options_.wake_up);
  }
  return true;
}

std::optional<Message> VirtualTransport::receive() {
  auto& arrived = network_.ranks_[static_cast<std::size_t>(rank_)].arrived;
  if (arrived.empty()) return std::nullopt;
  Message message = std::move(arrived.front());
  arrived.pop_front();
  return message;
}

void VirtualTransport::abort(int) { throw std::logic_error("abort in a simulation"); }

VirtualUnit::VirtualUnit(VirtualNetwork& network, int rank, double slowness) : network_(network), rank_(rank), slowness_(slowness) {
  network_.ranks_[static_cast<std::size_t>(rank)].unit = this;
}

void VirtualUnit::begin(const TableShape& shape, std::size_t rows, const std::atomic<bool>* stop, std::function<void(bool)> done) {
  if (busy_) throw std::logic_error("the unit is busy: two stages use it at a time");
  busy_ = true;
  was_stopped_ = computes_ = false;
  stop_ = stop;
  done_ = std::move(done);
  began_ = network_.now();
  length_ = std::llround(static_cast<double>(shape.one_row_ns) * slowness_ * shape.width(rows));
  group_ = shape.exchange && rows > 0 ? shape.exchange->point() : nullptr;
  operation_ = shape.operations;
  if (group_) return network_.join(*this, shape, rows);
  operation_ = std::max<Nanoseconds>(1, length_ / shape.operations);
  run_until(began_ + length_);
}

void VirtualUnit::run_until(Nanoseconds end) {
  computes_ = true;
  ends_ = end;
  network_.plan(ends_, VirtualNetwork::Kind::kComputed, rank_, ++runs_);
}

void VirtualUnit::leave(Nanoseconds at) {
  was_stopped_ = true;
  run_until(at);
}

void VirtualNetwork::join(VirtualUnit& unit, const TableShape& shape, std::size_t rows) {
  std::vector<VirtualUnit*>& units = groups_[unit.group_];
  if (std::ssize(units) == unit.group_->members) units.clear();
  units.push_back(&unit);
  if (std::ssize(units) < unit.group_->members) return;
  Nanoseconds longest = 0;
  for (const VirtualUnit* member : units) longest = std::max(longest, member->length_);
  longest += shape.exchange_ns + shape.exchange_row_ns * static_cast<Nanoseconds>(rows);
  for (VirtualUnit* member : units) {
    member->began_ = now_;
    member->operation_ = std::max<Nanoseconds>(1, longest / shape.operations);
    member->run_until(now_ + longest);
  }
  for (VirtualUnit* member : units) member->notice_stop();
}

/// A stop takes effect at the end of the current operation; in a group, for all members.
void VirtualUnit::notice_stop() {
  if (!busy_ || !computes_ || was_stopped_ || !*stop_) return;
  const Nanoseconds boundary = began_ + (network_.now() - began_) / operation_ * operation_ + operation_;
  if (boundary >= ends_) return;
  if (!group_) return leave(boundary);
  for (VirtualUnit* member : network_.groups_[group_]) member->leave(boundary);
}

std::unique_ptr<GroupExchange> VirtualTransport::join_group(std::span<const int> ranks, int model) {
  const std::vector<int> group(ranks.begin(), ranks.end());
  auto& point = network_.exchanges_[group][model];
  if (!point) point = std::make_shared<ExchangePoint>(static_cast<int>(group.size()));
  return std::make_unique<VirtualExchange>(point, static_cast<int>(std::find(group.begin(), group.end(), rank_) - group.begin()));
}

bool VirtualUnit::end(std::uint64_t run, Nanoseconds now) {
  if (!busy_ || run != runs_) return false;
  busy_before_ += now - began_;
  busy_ = false;
  done_(!was_stopped_);
  return true;
}

bool VirtualUnit::wait_for(std::chrono::microseconds) {
  busy_ = false;
  return true;
}

Nanoseconds VirtualUnit::busy_until(Nanoseconds now) const { return busy_before_ + (busy_ ? now - began_ : 0); }

}  // namespace yamata::simulation
