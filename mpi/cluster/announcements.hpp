#pragma once
// What a rank tells all others outside of a job: before it leads them, and when it ends them.
#include "mpi/transport/transport.hpp"

namespace yamata {

/// Tells the other ranks that this one lives, before it leads them; for each --timeout that it takes to begin, once or oftener.
void reassure(Transport& transport);

/// Tells the other ranks but the head, as far as they are within reach, that the job is about to end with `code`, and why has been said.
void hush(Transport& transport, int code);

}  // namespace yamata
