// Tests the transport contract with MPI; run under mpirun. Exit code 0: passed.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <vector>

#include "mpi/transport/mpi_session.hpp"
#include "mpi/transport/mpi_transport.hpp"
#include "tests/mpi/transport/transport_contract.hpp"

namespace yamata {
namespace {

/// A message stays pending while its receiver does not take it; nevertheless the sender may sleep.
void play_a_send_that_stays(MpiTransport& transport) {
  const int last = transport.size() - 1;
  const bool sleeps = transport.wakes();  // not on every network
  MPI_Barrier(MPI_COMM_WORLD);            // all have finished the contract, in which this message would be unexpected
  if (transport.rank() == 0 && last > 0 && sleeps) {
    transport.send(last, Tag::kRecord, std::vector<std::byte>(16u << 20));
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (transport.pending_sends() > 0 && !transport.wakes()) {
      if (transport.receive()) throw std::runtime_error("a message that nobody sent");
      if (std::chrono::steady_clock::now() > end) throw std::runtime_error("a send that stays lets its rank never sleep");
      transport.nap(std::chrono::milliseconds(1));
    }
    if (transport.pending_sends() == 0) throw std::runtime_error("a large message left though nobody took it");
  }
  MPI_Barrier(MPI_COMM_WORLD);
  int sent = sleeps;
  MPI_Bcast(&sent, 1, MPI_INT, 0, MPI_COMM_WORLD);
  if (transport.rank() == last && last > 0 && sent != 0) {
    for (auto message = transport.receive(); !message || message->tag == Tag::kPart;) message = transport.receive();
  }
  while (transport.pending_sends() > 0) transport.receive();
}

}  // namespace
}  // namespace yamata

int main() {
  const yamata::MpiSession session;
  yamata::MpiTransport transport(yamata::MpiTransport::Parts::kToAll);
  try {
    const int parts = yamata::play_transport_contract(transport);
    if (transport.size() > 1 && parts == 0) throw std::runtime_error("no large message came in parts");
    yamata::play_a_send_that_stays(transport);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "rank %d: %s\n", transport.rank(), e.what());
    transport.abort(1);
  }
  return 0;
}
