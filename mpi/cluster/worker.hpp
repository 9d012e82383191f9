#pragma once
// A rank other than the head: waits for the plan, is a stage or a drafter, ends when told to.
#include <atomic>
#include <chrono>
#include <functional>

#include "mpi/cluster/head.hpp"

namespace yamata {

/// What a rank needs to take its place. Filled by the caller, which knows the command line and the machine.
struct WorkerSetup {
  std::chrono::milliseconds timeout{120000};
  std::atomic<bool>* woken = nullptr;  ///< as in ClusterOptions
  std::string host;
  /// Opens the model of the next job and describes this rank; may throw: the head then reports it.
  std::function<wire::Hello()> open;
  /// After open.
  StageFactory make_stage;
  std::function<std::uint64_t()> mapped_bytes;
  /// Called when the job begins to be able to do without this rank, and when it no longer is.
  std::function<void(bool)> dispensable;
  const std::atomic<bool>* launcher_gone = nullptr;  ///< what started this rank has died: the head is told
  /// Called when the head has fallen silent to a rank that the job can do without.
  std::function<void()> head_unheard;
};

/// Takes part in one job after another until the head says stop; returns the exit code it gives. Where the head falls silent, prints one
/// line and ends the job.
int run_worker(Transport& transport, const WorkerSetup& setup);

}  // namespace yamata
