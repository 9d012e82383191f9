#pragma once
// Rank 0 leads the job. It holds the target's first stage, and decides what happens when a rank is lost.
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "mpi/cluster/dispatcher.hpp"
#include "mpi/cluster/group_benchmark.hpp"
#include "mpi/cluster/link_probe.hpp"
#include "mpi/cluster/members.hpp"
#include "mpi/cluster/reports.hpp"
#include "mpi/cluster/speed_measurement.hpp"
#include "mpi/cluster/weights_server.hpp"
#include "mpi/transport/idle.hpp"
#include "node/awake_clock.hpp"

namespace yamata {

/// The user has asked to stop the job (Ctrl-C).
struct Interrupted {};

struct ClusterOptions {
  std::chrono::milliseconds timeout{120000};          ///< of a silent rank, and of work without progress
  std::chrono::milliseconds serving_timeout{120000};  ///< likewise, if it is shorter: once all ranks have loaded their parts
  const std::atomic<bool>* interrupted = nullptr;
  std::atomic<bool>* woken = nullptr;  ///< set on SIGCONT: this process was stopped, or the launcher begins to end the job
  Measure measure{};                   ///< measures this rank's speed after all ranks have joined; empty: no rank measures
  bool probes_links = false;           ///< measure the links between the ranks before the plan is made
  /// Called after the links are measured, until it returns nothing: the next group of ranks to benchmark. `so_far`: the
  /// results of the groups before. `make_layer` makes these layers on this rank.
  std::function<std::optional<wire::BenchmarkRequest>(const std::vector<wire::Hello>& hellos, std::span<const Link> links,
                                                      std::span<const GroupTime> so_far)>
      next_group;
  LayerFactory make_layer;
  WeightsSource* weights = nullptr;                                  ///< for ranks that lack the models' files; it outlives the head
  std::function<void(int rank, const std::string& host)> on_joined;  ///< a rank has said hello
  std::function<void(double share)> on_loading;                      ///< `share`: share of all weights that is loaded
  std::function<void(const std::string&)> on_warning;
  bool needs_drafters = false;       ///< a lost drafter ends the job
  ReachesLauncher reaches_launcher;  ///< tells whether this rank is cut off, if it hears no other
  /// The job continues without this rank, which does not learn it from the head if it is cut off, or if this rank is.
  std::function<void(int rank)> on_left_out;
};

/// The decoder, to which the head reports events of the drafters.
class DraftListener {
 public:
  virtual ~DraftListener() = default;
  virtual void on_guesses(int rank, const wire::Guesses& guesses) = 0;
  /// The drafter that this rank leads is lost; decoding continues without it.
  virtual void on_drafter_lost(int rank) = 0;
  /// Whether decoding is blocked until this drafter answers.
  virtual bool awaits(int rank) const = 0;
};

/// A state machine. `begin` and `order_stop` return at once, and `step` advances the state; `start` and `stop` do the same but wait for the
/// end.
class Head {
 public:
  /// Makes the plan after every rank has said hello. Throws if the job is impossible.
  using Planner = std::function<wire::Start(const std::vector<wire::Hello>& hellos)>;

  enum class State {
    kCreated,
    kGathering,     ///< waits for every rank's hello
    kMeasuring,     ///< waits until each rank has measured its speed, if ClusterOptions asks for it
    kProbing,       ///< measures the links to the ranks, likewise
    kBenchmarking,  ///< groups of ranks compute shared layers, likewise
    kLoading,       ///< the plan is sent; waits until every rank has loaded its weights
    kServing,       ///< ready for runs
    kStopping,      ///< all ranks are told to stop; waits for their reports
    kStopped,       ///< or another job follows, which has a Head of its own
  };

  Head(Transport& transport, ClusterOptions options);

  /// Waits for every rank's hello, checks that all run the same version and have read the same files, sends the plan, builds this rank's
  /// stages, and waits until every rank has loaded its weights. `fingerprints`: per model. Throws the first error that any rank reports,
  /// with its rank and host.
  void start(const wire::Hello& own, const std::vector<std::uint64_t>& fingerprints, const Planner& plan, const StageFactory& make_stage);
  /// The same without waiting: it is done when state() is State::kServing.
  void begin(const wire::Hello& own, const std::vector<std::uint64_t>& fingerprints, const Planner& plan, const StageFactory& make_stage);
  State state() const { return state_; }

  Pipeline& target() { return *dispatcher_.target(); }
  Transport& transport() { return transport_; }
  /// Per rank; empty before they have been measured.
  std::vector<Link> links() const { return probe_ ? probe_->links() : std::vector<Link>{}; }
  /// Results of the group benchmarks.
  std::vector<GroupTime> group_times() const { return benchmark_ ? benchmark_->times() : std::vector<GroupTime>{}; }
  int ranks() const { return transport_.size(); }
  /// Each rank's description; empty before they have joined.
  const std::vector<wire::Hello>& hellos() const { return members_.hellos(); }
  /// The plan, from loading on.
  const wire::Start& plan() const { return plan_; }
  /// Grows when this rank computes anything, or hears of it from another.
  std::uint64_t progress() { return dispatcher_.heartbeat().progress + members_.parts(); }
  /// Whether a rank of this machine has ended though the job counts on it, or still uses it. mpirun interrupts rank 0 as soon as another
  /// rank has ended, often before rank 0 misses it. On other machines that is seldom faster.
  bool misses_rank() const;
  /// Handles messages and advances this rank's stages; true if anything happened. Throws Interrupted, RankLost, or the error of a rank that
  /// the job needs.
  bool step();
  /// Waits a short time, or until this rank's computation ends.
  void rest();
  /// Waits for the result of this run of the target. Unread results of earlier runs are discarded.
  RunResult wait_result(std::uint64_t run);

  /// Sets the listener for events of drafters; nullptr: none. It must outlive its registration.
  void listen(DraftListener* listener) { listener_ = listener; }

  /// Every rank's statistics so far. Only for jobs without drafters, and while no run is in flight.
  std::vector<wire::Report> ask_reports();
  /// Ends this job, while no run is in flight, but not the ranks: each leaves the job and says hello for the next one, which has a Head of
  /// its own.
  void finish();
  /// Stops every rank with exit code `code` and collects the reports that arrive. With a `limit` it waits no longer, and blames no rank
  /// whose report is missing then.
  std::vector<wire::Report> stop(int code, std::optional<std::chrono::milliseconds> limit = {});
  /// The same without waiting: it is done when state() is State::kStopped; take_reports() returns what has arrived.
  void order_stop(int code, std::optional<std::chrono::milliseconds> limit = {});
  /// The reports that have arrived, one per rank; a rank without a report has the role "lost".
  std::vector<wire::Report> take_reports() { return reports_.take(); }

 private:
  struct Setup {
    std::vector<std::uint64_t> fingerprints;
    Planner plan;
    StageFactory make_stage;
  };

  void advance_state();
  void joined(int rank, wire::Hello hello);
  void gathered();
  void start_measuring(int rank);
  void check_measuring(Clock::time_point now);
  void take_measured(int rank, wire::Measured measured);
  void measured();
  void probed();
  void send_plan();
  void check_loaded();
  void check_stopped();
  void dispatch(Message message);
  void on_failure(int rank, const wire::Failure& failure);
  void watch_ranks();
  const char* goes_on() const;
  void lose(const RankLost& lost);
  void lose_drafter(int leader, const std::string& why);
  void lose_idle(int rank, const std::string& why);
  bool all_reported() const;
  wire::Report own_report();

  Transport& transport_;
  ClusterOptions options_;
  Members members_;
  Dispatcher dispatcher_;
  Reports reports_;
  WeightsServer weights_;
  AwakeClock awake_;  // for measurements, and at the end
  Idle idle_;
  const std::uint64_t sent_before_;  // bytes sent by earlier jobs
  wire::Hello own_;
  Setup setup_;
  std::optional<MeasuringOrder> measuring_;
  std::map<int, Clock::time_point> measure_since_;  // the ranks that measure now, and since when on that clock
  std::optional<SpeedMeasurement> speed_;           // while this rank measures
  std::optional<LinkProbe> probe_;
  std::optional<GroupBenchmark> benchmark_;
  wire::Start plan_;
  DraftListener* listener_ = nullptr;
  State state_ = State::kCreated;
  Clock::time_point stop_deadline_{};  // on that clock
  std::optional<Clock::time_point> stop_limit_;
};

}  // namespace yamata
