#include "mpi/transport/local_transport.hpp"

#include <algorithm>
#include <cstdlib>

namespace yamata {

void LocalTransport::send(int to, Tag tag, std::vector<std::byte> bytes) {
  if (to != rank_) bytes_sent_ += bytes.size();
  LocalNetwork::Box& box = network_.boxes_.at(static_cast<std::size_t>(to));
  const std::lock_guard lock(box.mutex);
  box.messages.push_back({rank_, tag, std::move(bytes)});
  box.changed.notify_one();
}

std::optional<Message> LocalTransport::receive() {
  LocalNetwork::Box& box = network_.boxes_[static_cast<std::size_t>(rank_)];
  const std::lock_guard lock(box.mutex);
  if (box.messages.empty()) return std::nullopt;
  Message message = std::move(box.messages.front());
  box.messages.pop_front();
  return message;
}

LocalGroup& LocalNetwork::group(std::span<const int> ranks, int model) {
  const std::lock_guard lock(groups_mutex_);
  return groups_.try_emplace({{ranks.begin(), ranks.end()}, model}, static_cast<int>(ranks.size())).first->second;
}

std::unique_ptr<GroupExchange> LocalTransport::join_group(std::span<const int> ranks, int model) {
  const auto own = std::find(ranks.begin(), ranks.end(), rank_) - ranks.begin();
  return network_.group(ranks, model).member(static_cast<int>(own));
}

void LocalTransport::nap(std::chrono::microseconds length) {
  LocalNetwork::Box& box = network_.boxes_[static_cast<std::size_t>(rank_)];
  std::unique_lock lock(box.mutex);
  box.changed.wait_for(lock, length, [&] { return box.woken || !box.messages.empty(); });
  box.woken = false;
}

void LocalTransport::wake() {
  LocalNetwork::Box& box = network_.boxes_[static_cast<std::size_t>(rank_)];
  const std::lock_guard lock(box.mutex);
  box.woken = true;
  box.changed.notify_one();
}

void LocalTransport::abort(int code) { std::_Exit(code); }

}  // namespace yamata
