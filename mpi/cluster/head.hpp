#pragma once
// Rank 0: leads the job, holds the target's first stage, watches the ranks.
#include <atomic>
#include <functional>
#include <memory>
#include <optional>

#include "mpi/cluster/liveness.hpp"
#include "mpi/decoding/drafter.hpp"
#include "mpi/pipeline/pipeline.hpp"
#include "mpi/transport/idle.hpp"

namespace yamata {

/// The user asked for the end (Ctrl-C).
struct Interrupted {};

/// Makes stage `stage` of a plan on this rank.
using StageFactory = std::function<std::unique_ptr<StageModel>(const wire::PipelinePlan& plan, std::size_t stage, CacheTypes cache_types)>;
/// The drafter of a plan, with its first stage on this rank.
std::unique_ptr<Drafter> make_drafter(Transport& transport, const wire::Start& start, const wire::PipelinePlan& plan,
                                      const StageFactory& make_stage);

struct ClusterOptions {
  std::chrono::milliseconds timeout{120000};
  const std::atomic<bool>* interrupted = nullptr;
  std::atomic<bool>* woken = nullptr;            ///< SIGCONT has come: this process was stopped, or the launcher begins to end the job
  std::function<void(double share)> on_loading;  ///< share of all weights that is in memory
  std::function<void(const std::string&)> on_warning;
};

/// What every rank's report says, whatever it holds. `sent_before`: bytes it had sent when the job began.
wire::Report report_of_rank(const Transport& transport, const Idle& idle, std::uint64_t sent_before, const std::string& host,
                            const std::string& role);

/// Tells the other ranks that this one lives, before it leads them; for each --timeout that it takes to begin, once or oftener.
void reassure(Transport& transport);

/// Tells the other ranks but the head, as far as they are within reach, that the job is about to end with `code`, and why has been said.
void hush(Transport& transport, int code);

class Head {
 public:
  /// Shares the job out once every rank has said hello; may throw what forbids it.
  using Planner = std::function<wire::Start(const std::vector<wire::Hello>& hellos)>;

  Head(Transport& transport, ClusterOptions options);

  /// Waits for every rank's hello, checks that all run the same version and read the same files, sends the plan, builds this
  /// rank's stages and waits until every rank has its weights in memory. `fingerprints`: per model. Throws the first fault that
  /// any rank reports, with its rank and host.
  void start(const wire::Hello& own, const std::vector<std::uint64_t>& fingerprints, const Planner& plan, const StageFactory& make_stage);

  Pipeline& target() { return *target_; }
  const wire::Start& plan() const { return plan_; }
  int ranks() const { return transport_.size(); }
  /// Takes messages and lets this rank's stages go on; true if anything happened. Throws Interrupted, or the fault of a rank
  /// that the job cannot do without.
  bool step();
  /// Waits a little, or until this rank's computation ends.
  void rest();
  /// The logits of the target's oldest run that is still out.
  std::vector<float> wait_logits();

  std::function<void(int rank, const wire::Guesses& guesses)> on_guesses;
  std::function<void(int rank)> on_drafter_lost;
  /// Whether the text cannot go on before this drafter has answered; not given: it always can.
  std::function<bool(int rank)> drafter_awaited;

  /// Every rank's statistics so far. For jobs without drafters, when no run is out.
  std::vector<wire::Report> ask_reports();
  /// Ends this job, none of whose runs is out, but not the ranks: each forgets the job and says hello for the next, which another
  /// Head leads.
  void finish();
  /// Ends every rank with `code` and collects their reports, as far as they come.
  std::vector<wire::Report> stop(int code);

 private:
  void await_hellos(std::vector<wire::Hello>& hellos);
  void check_agreement(const std::vector<wire::Hello>& hellos, const std::vector<std::uint64_t>& fingerprints) const;
  void load();
  void dispatch(Message message);
  void on_failure(int rank, const wire::Failure& failure);
  void send_heartbeats();
  void give_up_missing_drafters();
  bool all_reported() const;
  void check_all_reported() const;
  std::vector<wire::Report> take_reports();
  void give_up_stalled_drafters(Liveness::Clock::time_point now);
  void lose_drafter_of(int rank, const std::string& why);
  const wire::PipelinePlan* draft_plan_of(int rank) const;
  wire::Heartbeat own_heartbeat() const;
  wire::Report own_report();

  Transport& transport_;
  ClusterOptions options_;
  Liveness liveness_;
  Idle idle_;
  const std::uint64_t sent_before_;  // bytes, by the jobs before
  wire::Hello own_;
  wire::Start plan_;
  std::unique_ptr<Pipeline> target_;
  std::unique_ptr<Drafter> drafter_;  // where the head drafts itself
  std::vector<std::optional<wire::Report>> reports_;
  std::vector<bool> lost_;
  std::function<void(int, wire::Hello)> on_hello_;
  bool loading_ = false, running_ = false, stopped_ = false;
};

}  // namespace yamata
