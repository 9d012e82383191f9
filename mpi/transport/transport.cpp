#include "mpi/transport/transport.hpp"

#include <chrono>
#include <thread>

namespace yamata {
namespace {

/// Takes messages until `done`; counts disconnects and keeps what the last of them said.
struct Disconnects {
  int count = 0;
  bool all_here = true;

  /// False where that had not come to be by `deadline`.
  template <class Done>
  bool take_until(Transport& transport, Done done, std::chrono::steady_clock::time_point deadline) {
    while (!done()) {
      const auto message = transport.receive();
      if (!message) {
        if (std::chrono::steady_clock::now() > deadline) return false;
        std::this_thread::sleep_for(std::chrono::microseconds(100));
      } else if (message->tag == Tag::kDisconnect) {
        ++count;
        all_here = message->bytes.empty();
      }
    }
    return true;
  }
};

}  // namespace

bool part(Transport& transport, std::chrono::milliseconds patience, std::chrono::milliseconds head_patience) {
  using Clock = std::chrono::steady_clock;
  constexpr auto kHeadFirst = std::chrono::seconds(2);  // the head's patience ends before that of the others
  Disconnects disconnects;
  const auto all_sent = [&] { return transport.pending_sends() == 0; };
  if (transport.rank() != 0) {  // the head says when, this rank answers when all it sent has left, the head sends all home
    const auto comes = [&](int count, std::chrono::milliseconds limit) {
      return disconnects.take_until(
          transport, [&, count] { return disconnects.count >= count && all_sent(); }, Clock::now() + limit);
    };
    if (!comes(1, head_patience)) return false;
    transport.send(0, Tag::kDisconnect, {});
    return comes(2, patience + kHeadFirst) && disconnects.all_here;
  }
  int others = 0;
  for (int r = 1; r < transport.size(); ++r) others += !transport.forgotten(r);
  for (int r = 1; r < transport.size(); ++r) transport.send(r, Tag::kDisconnect, {});
  const bool answered = disconnects.take_until(
      transport, [&] { return disconnects.count == others && all_sent(); }, Clock::now() + patience);
  if (!answered) return false;
  const bool all_here = others == transport.size() - 1;
  for (int r = 1; r < transport.size(); ++r) transport.send(r, Tag::kDisconnect, std::vector<std::byte>(all_here ? 0 : 1));
  return disconnects.take_until(transport, all_sent, Clock::now() + patience) && all_here;
}

}  // namespace yamata
