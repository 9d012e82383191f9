#pragma once
// A job in one process: the test leads it, and its other ranks are threads.
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "launch/program/job/follower.hpp"
#include "launch/program/job/job.hpp"
#include "mpi/transport/local_transport.hpp"
#include "tests/paths.hpp"

namespace yamata::test {

/// Options of a job with the demonstration's target, one thread on each rank, divided by bytes, so that nothing is measured.
inline JobOptions tales() {
  JobOptions options;
  options.models.target = source_path("/models/tales-target-q8_0.gguf");
  options.layout.split = LayerSplit::parse("bytes");
  options.layout.strategy = Strategy::kIterative;
  options.compute.threads = 1;
  options.compute.numa = Numa::kOff;
  options.cache.context = 64;
  return options;
}

class JobCluster {
 public:
  JobCluster(const JobOptions& options, int ranks)
      : network_(ranks), transport_(network_, 0), job_(options, transport_, located(0, ranks)) {
    for (int rank = 1; rank < ranks; ++rank) threads_.emplace_back([this, options, rank, ranks] { follow(options, rank, ranks); });
  }
  ~JobCluster() {
    for (int rank = 1; rank < network_.size(); ++rank) transport_.send(rank, Tag::kStop, wire::encode_stop(0));
    for (std::thread& thread : threads_) thread.join();
  }
  Job& job() { return job_; }
  /// Lets the other ranks believe that their launcher has died, which they report to the head.
  void launcher_dies() { launcher_gone_ = true; }

 private:
  static RankLocation located(int rank, int ranks) { return {rank, ranks, "host", rank, ranks}; }
  void follow(const JobOptions& options, int rank, int ranks) {
    LocalTransport transport(network_, rank);
    Follower follower([&] { return std::make_unique<JobRank>(options, transport, located(rank, ranks)); });
    WorkerSetup setup = follower.setup();
    setup.host = "host";
    setup.launcher_gone = &launcher_gone_;
    run_worker(transport, setup);
  }

  std::atomic<bool> launcher_gone_{false};
  LocalNetwork network_;
  LocalTransport transport_;
  Job job_;
  std::vector<std::thread> threads_;
};

}  // namespace yamata::test
