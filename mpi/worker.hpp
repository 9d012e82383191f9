#pragma once
// A rank other than the head: waits for the plan, runs its stage, ends when told to.
#include <chrono>
#include <functional>

#include "mpi/transport.hpp"
#include "mpi/wire.hpp"
#include "node/compute_unit.hpp"

namespace yamata {

/// What a rank needs to become a stage. Filled by the caller, which knows the command line and the machine.
struct WorkerSetup {
  std::chrono::milliseconds timeout{120000};
  std::string host;
  /// Opens the model and describes this rank; may throw: the head then reports it.
  std::function<wire::Hello()> open;
  /// After open: the model and the unit to compute with.
  std::function<const gguf::File&()> file;
  std::function<ComputeUnit&()> unit;
};

/// Runs until the head says stop; returns the exit code it gives. Where the head falls silent, prints one line and ends the job.
int run_worker(Transport& transport, const WorkerSetup& setup);

}  // namespace yamata
