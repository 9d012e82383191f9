#pragma once
// Messages to all other ranks outside of a job: before rank 0 leads the job, and when a rank ends it.
#include "mpi/transport/transport.hpp"

namespace yamata {

/// Tells the other ranks that this one is alive, before it leads them. Call it at least once per --timeout until the job begins.
void announce_alive(Transport& transport);

/// Tells the other ranks except the head, as far as they can be reached, that the job will end with `code` and that the reason was
/// reported.
void announce_end(Transport& transport, int code);

}  // namespace yamata
