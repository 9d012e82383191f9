#pragma once
// Rank 0: leads the job. It holds the target's first stage, and decides what the loss of a rank means.
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "mpi/cluster/dispatcher.hpp"
#include "mpi/cluster/link_probe.hpp"
#include "mpi/cluster/members.hpp"
#include "mpi/cluster/rehearsal.hpp"
#include "mpi/cluster/reports.hpp"
#include "mpi/cluster/speed_measurement.hpp"
#include "mpi/transport/idle.hpp"

namespace yamata {

/// The user asked for the end (Ctrl-C).
struct Interrupted {};

struct ClusterOptions {
  std::chrono::milliseconds timeout{120000};
  const std::atomic<bool>* interrupted = nullptr;
  std::atomic<bool>* woken = nullptr;  ///< SIGCONT has come: this process was stopped, or the launcher begins to end the job
  Measure measure{};                   ///< of this rank's speed, once all have come; empty: nobody's is asked for
  bool probes_links = false;           ///< before the plan, which may want to know them
  /// After the probes, once for each: a group of ranks of which the plan may want to know what it takes for a layer, after what those
  /// before took; and what makes that layer here.
  std::function<std::optional<wire::Rehearse>(const std::vector<wire::Hello>& hellos, std::span<const Link> links,
                                              std::span<const GroupTime> so_far)>
      next_group;
  LayerFactory make_layer;
  std::function<void(double share)> on_loading;  ///< share of all weights that is in memory
  std::function<void(const std::string&)> on_warning;
};

/// Who decodes: the head tells it of the drafters.
class DraftListener {
 public:
  virtual ~DraftListener() = default;
  virtual void on_guesses(int rank, const wire::Guesses& guesses) = 0;
  /// The text goes on without the drafter that this rank leads.
  virtual void on_drafter_lost(int rank) = 0;
  /// Whether the text cannot go on before this drafter has answered.
  virtual bool awaits(int rank) const = 0;
};

/// A state machine: `start` and `stop` wait, and are `begin` and `order_stop` with `step` as often as it takes.
class Head {
 public:
  /// Shares the job out once every rank has said hello; may throw what forbids it.
  using Planner = std::function<wire::Start(const std::vector<wire::Hello>& hellos)>;

  enum class State {
    kCreated,
    kGathering,   ///< waits for every rank's hello
    kMeasuring,   ///< lets each rank measure its speed, where that is asked for
    kProbing,     ///< measures the links to them, likewise
    kRehearsing,  ///< lets groups share a layer, likewise
    kLoading,     ///< the plan is sent; waits until every rank has its weights in memory
    kServing,     ///< takes runs
    kStopping,    ///< has told all to end, and waits for their reports
    kStopped,     ///< or another job follows, which another Head leads
  };

  Head(Transport& transport, ClusterOptions options);

  /// Waits for every rank's hello, checks that all run the same version and read the same files, sends the plan, builds this
  /// rank's stages and waits until every rank has its weights in memory. `fingerprints`: per model. Throws the first fault that
  /// any rank reports, with its rank and host.
  void start(const wire::Hello& own, const std::vector<std::uint64_t>& fingerprints, const Planner& plan, const StageFactory& make_stage);
  /// The same without waiting: State::kServing says when it is done.
  void begin(const wire::Hello& own, const std::vector<std::uint64_t>& fingerprints, const Planner& plan, const StageFactory& make_stage);
  State state() const { return state_; }

  Pipeline& target() { return *dispatcher_.target(); }
  Transport& transport() { return transport_; }
  const wire::Start& plan() const { return plan_; }
  /// Per rank, once they have been measured; else empty.
  std::vector<Link> links() const { return probe_ ? probe_->links() : std::vector<Link>{}; }
  /// What groups have taken that rehearsed.
  std::vector<GroupTime> group_times() const { return rehearsal_ ? rehearsal_->times() : std::vector<GroupTime>{}; }
  int ranks() const { return transport_.size(); }
  /// Takes messages and lets this rank's stages go on; true if anything happened. Throws Interrupted, RankLost, or the fault that a rank
  /// reports which the job cannot do without.
  bool step();
  /// Waits a little, or until this rank's computation ends.
  void rest();
  /// Waits for the result of a run of the target. Those of runs before it that nobody has waited for are dropped.
  RunResult wait_result(std::uint64_t run);

  /// Who is told of the drafters; nullptr: nobody. Outlives its being told.
  void listen(DraftListener* listener) { listener_ = listener; }

  /// Every rank's statistics so far. For jobs without drafters, when no run is out.
  std::vector<wire::Report> ask_reports();
  /// Ends this job, none of whose runs is out, but not the ranks: each forgets the job and says hello for the next, which another
  /// Head leads.
  void finish();
  /// Ends every rank with `code` and collects their reports, as far as they come.
  std::vector<wire::Report> stop(int code);
  /// The same without waiting: State::kStopped says when it is done, take_reports what has come.
  void order_stop(int code);
  /// Those that have come, one per rank; a rank that gave none has the role "lost".
  std::vector<wire::Report> take_reports() { return reports_.take(); }

 private:
  struct Setup {
    std::vector<std::uint64_t> fingerprints;
    Planner plan;
    StageFactory make_stage;
  };

  void go_on();
  void gathered();
  void let_measure(int rank);
  void check_measuring(Clock::time_point now) const;
  void take_measured(int rank, wire::Measured measured);
  void measured();
  void probed();
  void share_out();
  void check_loaded();
  void check_stopped();
  void dispatch(Message message);
  void on_failure(int rank, const wire::Failure& failure);
  void watch_ranks();
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
  Idle idle_;
  const std::uint64_t sent_before_;  // bytes, by the jobs before
  wire::Hello own_;
  Setup setup_;
  std::optional<MeasuringOrder> measuring_;
  std::map<int, Clock::time_point> measure_since_;  // the ranks whose turn it is to measure
  std::optional<SpeedMeasurement> speed_;  // while this rank's is measured
  std::optional<LinkProbe> probe_;
  std::optional<Rehearsal> rehearsal_;
  wire::Start plan_;
  DraftListener* listener_ = nullptr;
  State state_ = State::kCreated;
  Clock::time_point stop_deadline_{};
};

}  // namespace yamata
