#pragma once
// A rank other than the head: waits for the plan, is a stage or a drafter, and ends when the head says so.
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
#include "mpi/cluster/group_benchmark.hpp"
#include "mpi/cluster/liveness.hpp"
#include "mpi/cluster/speed_measurement.hpp"
#include "mpi/cluster/weights_fetch.hpp"
#include "mpi/transport/idle.hpp"

namespace yamata {

/// What a rank needs to join the job. Filled by the caller, which knows the command line and the machine.
struct WorkerSetup {
  std::chrono::milliseconds timeout{120000}, serving_timeout{120000};  ///< as in ClusterOptions
  std::atomic<bool>* woken = nullptr;                                  ///< as in ClusterOptions
  std::string host;
  /// Opens the model of the next job and describes this rank. If it throws, the error is sent to the head, which reports it.
  std::function<wire::Hello()> open;
  FetchSetup fetch;  ///< what to fetch from the head before that, and before stages are made; empty: nothing
  Measure measure;   ///< called after `open`
  /// Called after `open`.
  StageFactory make_stage;
  LayerFactory make_layer;  ///< likewise
  std::function<std::uint64_t()> mapped_bytes;
  /// Called with true when the job no longer needs this rank, and with false when the job is over.
  std::function<void(bool)> dispensable;
  const std::atomic<bool>* launcher_gone = nullptr;  ///< true if the process that started this rank has died; the head is told
  /// Called if the job continues without this rank, or may continue: the head has left it out, or has fallen silent.
  std::function<void()> head_unheard;
  /// If this finds that the launcher is unreachable, a rank that the job does not need does not report the head, and any other that hears
  /// nobody reports itself. Without this, a rank that the job does not need never reports the head.
  ReachesLauncher reaches_launcher;
  /// Whether the head has announced through the launcher that the job continues without this rank (ClusterOptions::on_left_out).
  std::function<bool()> announced_left_out;
};

/// One job of such a rank: a state machine.
///
///   kAwaitingPlan --begin--> kOpening --join--> kAwaitingPlan, if files of models must be fetched
///   kAwaitingPlan --take_plan--> kFetching --take_place--> kLoading --serve--> kServing
///   kFetching --take_place--> kServing, if the plan has no part for this rank: it is idle
///       any state --fail--> kFailed: it takes no part any more and waits for the end
///       any state but kFailed --leave_job--> kJobOver; any state --end--> kStopped
class Worker {
 public:
  enum class State { kOpening, kAwaitingPlan, kFetching, kLoading, kServing, kFailed, kJobOver, kStopped };

  /// `setup` must outlive the worker.
  Worker(Transport& transport, const WorkerSetup& setup);

  /// Opens the model and says hello, at once if nothing has to be fetched for it. Call it once.
  void begin();
  /// Handles messages and advances this rank's part; true if anything happened. Throws RankLost if the head has fallen silent.
  bool step();
  /// Waits a short time, or until this rank's computation ends.
  void rest();
  State state() const { return state_; }
  bool ended() const { return state_ == State::kJobOver || state_ == State::kStopped; }
  /// The head's exit code, or nothing if another job follows. After the end.
  std::optional<int> exit_code() const { return exit_code_; }

 private:
  // Transitions
  void join();
  void take_plan(wire::Start plan);
  void take_place();
  void serve();
  void fail(const wire::Failure& failure);
  void leave_job();
  void end(int exit_code);

  template <class Work>
  void attempt(Work work);
  void dispatch(Message message);
  void answer(const wire::Probe& probe);
  void measure();
  bool advance_fetch();
  bool advance_measuring();
  void benchmark(const wire::BenchmarkRequest& layer);
  bool advance_benchmark();
  void take(Message message);
  wire::Heartbeat heartbeat() const;
  void on_heartbeat(int from, const wire::Heartbeat& heartbeat);
  void send_heartbeats();
  void send_to_others(const wire::Heartbeat& heartbeat);
  void ask_around();
  bool watches_alone() const;
  void be_left_out();
  void check_head(Clock::time_point now);
  void become_dispensable(bool dispensable);
  wire::Report report();

  Transport& transport_;
  const WorkerSetup& setup_;
  Liveness liveness_;
  Dispatcher dispatcher_;
  Idle idle_;
  const std::uint64_t sent_before_;  // bytes sent by earlier jobs
  wire::Hello hello_;                // the hello that this rank has sent
  WeightsFetch fetch_;
  State state_ = State::kAwaitingPlan;
  bool dispensable_ = false;                   // the job continues if this rank is lost, in any state
  std::set<int> target_ranks_;                 // the ranks that hold the target; empty before the plan
  bool reaches_launcher_ = false;              // ever since the head has been silent for half the deadline
  bool suspicious_ = false;                    // it has been silent for so long
  std::unique_ptr<SpeedMeasurement> speed_;    // while this rank measures its speed
  std::unique_ptr<SharedLayer> shared_layer_;  // while its group is benchmarked
  wire::Start plan_;
  std::vector<Message> early_;
  Clock::time_point probed_{};  // the last time that the head measured the link to this rank
  std::optional<int> exit_code_;
  std::int64_t clock_offset_us_ = 0;
};

/// Takes part in one job after another until the head says stop; returns the exit code that the head gives. If the head falls silent,
/// prints one line and ends the job.
int run_worker(Transport& transport, const WorkerSetup& setup);

}  // namespace yamata
