#include "mpi/transport.hpp"

#include <chrono>
#include <thread>

namespace yamata {
namespace {

/// Takes messages until `done`, told of each farewell.
template <class Done, class OnFarewell>
void take_until(Transport& transport, Done done, OnFarewell on_farewell) {
  while (!done()) {
    if (const auto message = transport.receive()) {
      if (message->tag == Tag::kFarewell) on_farewell();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  }
}

}  // namespace

void part(Transport& transport) {
  int farewells = 0;
  const auto count = [&] { ++farewells; };
  const auto all_sent = [&] { return transport.pending_sends() == 0; };
  if (transport.rank() != 0) {  // the head says when, this rank answers when all it sent has left, the head sends all home
    take_until(
        transport, [&] { return farewells > 0 && all_sent(); }, count);
    transport.send(0, Tag::kFarewell, {});
    take_until(
        transport, [&] { return farewells > 1 && all_sent(); }, count);
    return;
  }
  int others = 0;
  for (int r = 1; r < transport.size(); ++r) others += !transport.forgotten(r);
  for (int r = 1; r < transport.size(); ++r) transport.send(r, Tag::kFarewell, {});
  take_until(
      transport, [&] { return farewells == others && all_sent(); }, count);
  for (int r = 1; r < transport.size(); ++r) transport.send(r, Tag::kFarewell, {});
  take_until(transport, all_sent, count);
}

}  // namespace yamata
