// The transport contract over MPI; run under mpirun. Exit code 0: kept.
#include <cstdio>
#include <cstdlib>

#include "mpi/mpi_session.hpp"
#include "mpi/mpi_transport.hpp"
#include "transport_contract.hpp"

int main() {
  const yamata::MpiSession session;
  yamata::MpiTransport transport;
  try {
    yamata::play_transport_contract(transport);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "rank %d: %s\n", transport.rank(), e.what());
    transport.abort(1);
  }
  return 0;
}
