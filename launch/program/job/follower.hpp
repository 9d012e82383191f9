#pragma once
// The jobs of a rank other than 0, which follows a head.
#include <functional>
#include <memory>

#include "launch/program/job/job_rank.hpp"
#include "mpi/cluster/worker.hpp"

namespace yamata {

/// Opens one job after another, and computes this rank's part of it, as the messages of the head say.
class Follower {
 public:
  /// Makes the next job; nullptr: this rank has no model. Called before each job, when the job before it is freed. May throw.
  using NextJob = std::function<std::unique_ptr<JobRank>()>;
  explicit Follower(NextJob next) : next_(std::move(next)) {}
  Follower(const Follower&) = delete;
  Follower& operator=(const Follower&) = delete;

  /// What a worker calls, without host, timeout and launcher. This outlives it.
  WorkerSetup setup();

 private:
  NextJob next_;
  std::unique_ptr<JobRank> rank_;
};

}  // namespace yamata
