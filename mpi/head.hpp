#pragma once
// The head's side of the pipeline: sends runs, collects logits, watches the ranks. Runs on rank 0, with the first stage in it.
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "mpi/idle.hpp"
#include "mpi/liveness.hpp"
#include "mpi/stage.hpp"

namespace yamata {

/// The user asked for the end (Ctrl-C).
struct Interrupted {};

struct ClusterOptions {
  std::chrono::milliseconds timeout{120000};
  std::vector<double> layer_split;  ///< empty: by bytes
  ContextOptions context;
  int batch = 64;  ///< most tokens of a run
  std::function<void(double share)> on_loading;          ///< share of all weights that is in memory
  std::function<void(const std::string&)> on_warning;
  const std::atomic<bool>* interrupted = nullptr;
};

class Head {
 public:
  Head(Transport& transport, const ClusterOptions& options);

  /// Waits for every rank's hello, checks that all read the same file and version and have the memory, shares the layers out,
  /// builds the first stage and waits until every rank has its weights in memory.
  /// Throws the first fault that any rank reports, with its rank and host.
  void start(const wire::Hello& own, const gguf::File& file, const Hyperparameters& h, ComputeUnit& unit);

  /// Sends a run into the pipeline; returns its id. Throws UsageError where the cache cannot hold it: nothing was sent then.
  std::uint64_t submit(wire::Record run);
  /// Sends a cache operation after all runs so far.
  void operate(const wire::Record& operation);
  /// The logits of the oldest run that is still out: [wanted][vocabulary]. Runs come back in the order sent.
  std::vector<float> wait_logits();
  /// Runs that are out.
  std::size_t outstanding() const { return submitted_ - completed_; }
  /// Runs that keep every stage busy; more only lengthen queues.
  std::size_t useful_depth() const { return static_cast<std::size_t>(transport_.size()) * 2; }

  /// Ends every rank with `code` and collects their reports, as far as they come.
  std::vector<wire::Report> stop(int code);
  int ranks() const { return transport_.size(); }

 private:
  void await_hellos(std::vector<wire::Hello>& hellos);
  void check_agreement(const std::vector<wire::Hello>& hellos) const;
  void load(const gguf::File& file);
  bool pump();
  void dispatch(Message message);
  void send_heartbeats();
  void rest();
  wire::Heartbeat own_heartbeat() const;
  wire::Report own_report() const;

  Transport& transport_;
  ClusterOptions options_;
  Liveness liveness_;
  Idle idle_;
  std::string host_, isa_;
  const gguf::File* file_ = nullptr;
  bool loading_ = false;
  std::unique_ptr<StageModel> model_;
  std::unique_ptr<Stage> stage_;
  std::unique_ptr<CellTable> cells_;  // what every stage's table looks like once it has seen all records sent
  BatchCells batch_cells_;
  std::uint64_t submitted_ = 0, completed_ = 0;
  std::deque<wire::Bytes> logits_;
  std::vector<std::optional<wire::Report>> reports_;
  std::function<void(int, wire::Hello)> on_hello_;
  bool stopped_ = false;
  double wait_s_ = 0;
};

}  // namespace yamata
