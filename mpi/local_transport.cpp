#include "mpi/local_transport.hpp"

#include <cstdlib>

namespace yamata {

void LocalTransport::send(int to, Tag tag, std::vector<std::byte> bytes) {
  if (to != rank_) bytes_sent_ += bytes.size();
  LocalNetwork::Box& box = network_.boxes_.at(static_cast<std::size_t>(to));
  const std::lock_guard lock(box.mutex);
  box.messages.push_back({rank_, tag, std::move(bytes)});
}

std::optional<Message> LocalTransport::receive() {
  LocalNetwork::Box& box = network_.boxes_[static_cast<std::size_t>(rank_)];
  const std::lock_guard lock(box.mutex);
  if (box.messages.empty()) return std::nullopt;
  Message message = std::move(box.messages.front());
  box.messages.pop_front();
  return message;
}

void LocalTransport::abort(int code) { std::_Exit(code); }

}  // namespace yamata
