#pragma once
// A rank other than the head: waits for the plan, is a stage or a drafter, ends when told to.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "mpi/cluster/dispatcher.hpp"
#include "mpi/cluster/liveness.hpp"
#include "mpi/cluster/rehearsal.hpp"
#include "mpi/cluster/speed_measurement.hpp"
#include "mpi/transport/idle.hpp"

namespace yamata {

/// What a rank needs to take its place. Filled by the caller, which knows the command line and the machine.
struct WorkerSetup {
  std::chrono::milliseconds timeout{120000};
  std::atomic<bool>* woken = nullptr;  ///< as in ClusterOptions
  std::string host;
  /// Opens the model of the next job and describes this rank; may throw: the head then reports it.
  std::function<wire::Hello()> open;
  Measure measure;  ///< after open
  /// After open.
  StageFactory make_stage;
  LayerFactory make_layer;  ///< likewise
  std::function<std::uint64_t()> mapped_bytes;
  /// Called when the job begins to be able to do without this rank, and when it no longer is.
  std::function<void(bool)> dispensable;
  const std::atomic<bool>* launcher_gone = nullptr;  ///< what started this rank has died: the head is told
  /// Called when the head has fallen silent to a rank that the job can do without.
  std::function<void()> head_unheard;
};

/// One job of such a rank: a state machine.
///
///   kAwaitingPlan --take_place--> kLoading --serve--> kServing
///   kAwaitingPlan --take_place--> kServing, where the plan has no part for it: it is idle
///       any of them --fail--> kFailed, which takes no part any more but waits for the end
///       any but kFailed --leave_job--> kJobOver; any of them --end--> kStopped
class Worker {
 public:
  enum class State { kAwaitingPlan, kLoading, kServing, kFailed, kJobOver, kStopped };

  /// `setup` outlives the worker.
  Worker(Transport& transport, const WorkerSetup& setup);

  /// Opens the model and says hello, once.
  void begin();
  /// Takes messages and lets this rank's part go on; true if anything happened. Throws RankLost where the head has fallen silent.
  bool step();
  /// Waits a little, or until this rank's computation ends.
  void rest();
  State state() const { return state_; }
  bool ended() const { return state_ == State::kJobOver || state_ == State::kStopped; }
  /// The exit code that the head has given, or nothing where another job follows. Once ended.
  std::optional<int> exit_code() const { return exit_code_; }

 private:
  // Transitions
  void take_place(const wire::Start& plan);
  void serve();
  void fail(const wire::Failure& failure);
  void leave_job();
  void end(int exit_code);

  template <class Work>
  void attempt(Work work);
  void dispatch(Message message);
  void answer(const wire::Probe& probe);
  void measure();
  bool go_on_measuring();
  void rehearse(const wire::Rehearse& layer);
  bool go_on_rehearsing();
  void take(Message message);
  void on_heartbeat(int from, const wire::Heartbeat& heartbeat);
  void send_heartbeats();
  void check_head(Clock::time_point now);
  void become_dispensable(bool dispensable);
  wire::Report report();

  Transport& transport_;
  const WorkerSetup& setup_;
  Liveness liveness_;
  Dispatcher dispatcher_;
  Idle idle_;
  const std::uint64_t sent_before_;  // bytes, by the jobs before
  wire::Hello hello_;                // what this rank has said of itself
  State state_ = State::kAwaitingPlan;
  bool dispensable_ = false;                   // the job goes on without this rank where that is lost, whatever its state
  std::set<int> target_ranks_;                 // that hold the target; empty before the plan
  std::unique_ptr<SpeedMeasurement> speed_;    // while it is measured
  std::unique_ptr<SharedLayer> shared_layer_;  // while it is rehearsed
  std::vector<Message> early_;
  Clock::time_point probed_{};  // the last time that this rank was asked how long a message takes
  std::optional<int> exit_code_;
  std::int64_t clock_offset_us_ = 0;
};

/// Takes part in one job after another until the head says stop; returns the exit code it gives. Where the head falls silent, prints one
/// line and ends the job.
int run_worker(Transport& transport, const WorkerSetup& setup);

}  // namespace yamata
