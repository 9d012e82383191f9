#include "mpi/cluster/announcements.hpp"

#include <chrono>

#include "mpi/protocol/wire.hpp"

namespace yamata {

void announce_alive(Transport& transport) {
  for (int r = 1; r < transport.size(); ++r) transport.send(r, Tag::kHeartbeat, wire::encode(wire::Heartbeat{}));
}

void announce_end(Transport& transport, int code) {
  constexpr auto kLeave = std::chrono::milliseconds(20);  // pending sends only advance in receive
  for (int r = 1; r < transport.size(); ++r) {
    if (r != transport.rank()) transport.send(r, Tag::kStop, wire::encode_stop(code));
  }
  const auto end = std::chrono::steady_clock::now() + kLeave;
  while (transport.pending_sends() > 0 && std::chrono::steady_clock::now() < end) transport.receive();
}

}  // namespace yamata
