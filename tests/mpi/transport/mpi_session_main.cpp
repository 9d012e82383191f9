// Checks the parameters that a session has set for Open MPI's TCP, and what it says of a call that fails: `mpi_session_main BYTES` expects
// this eager limit. Exit code 0: all is right.
#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "mpi/transport/mpi_session.hpp"
#include "node/error.hpp"

namespace {

/// The value that Open MPI uses; 0 if this MPI does not have the parameter.
unsigned long long eager_limit() {
  int provided = 0, index = 0, count = 0;
  MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
  unsigned long long limit = 0;
  MPI_T_cvar_handle handle;
  if (MPI_T_cvar_get_index("btl_tcp_eager_limit", &index) == MPI_SUCCESS &&
      MPI_T_cvar_handle_alloc(index, nullptr, &handle, &count) == MPI_SUCCESS) {
    MPI_T_cvar_read(handle, &limit);
    MPI_T_cvar_handle_free(&handle);
  }
  MPI_T_finalize();
  return limit;
}

/// What a user is told when the sending of a message has failed.
std::string message_of_a_failed_call() {
  try {
    yamata::check_mpi(MPI_ERR_OTHER, "MPI_Isend(&x, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, &request)");
  } catch (const yamata::ClusterError& error) {
    return error.what();
  }
  return "nothing";
}

}  // namespace

int main(int, char** argv) {
  const yamata::MpiSession session;
  const unsigned long long limit = eager_limit(), expected = std::strtoull(argv[1], nullptr, 10);
  if (limit != 0 && limit != expected) std::fprintf(stderr, "btl_tcp_eager_limit is %llu, not %llu\n", limit, expected);
  const std::string message = message_of_a_failed_call();
  const bool helps = message.find("MPI_Isend failed: ") == 0 && message.find("; look at the network") != std::string::npos;
  if (!helps) std::fprintf(stderr, "a failed call is told as: %s\n", message.c_str());
  return (limit == 0 || limit == expected) && helps ? 0 : 1;
}
