#pragma once
// Leads a job: rank 0 starts it, serves with all ranks, and ends it.
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launch/program/job/expected_text.hpp"
#include "launch/program/job/job_experience.hpp"
#include "launch/program/job/job_planner.hpp"
#include "launch/program/job/job_rank.hpp"
#include "launch/program/job/layout_chooser.hpp"
#include "launch/program/job/shared_weights.hpp"
#include "launch/program/output/output_file.hpp"
#include "mpi/cluster/head.hpp"

namespace yamata {

/// Is told how the start of a job goes on.
struct StartListener {
  std::function<void(int rank, const std::string& host)> joined;
  std::function<void(double share)> loading;  ///< share of all weights that is loaded
};

/// The order of calls: open, start, then serve and wait_until as often as there is work, then end.
class Job {
 public:
  /// `transport` outlives this. Throws UsageError if the flags do not fit the number of ranks.
  Job(const JobOptions& options, Transport& transport, RankLocation location);

  /// Before start: tells `listener` how it goes on, instead of a progress bar.
  void tell_start(StartListener listener) { listener_ = std::move(listener); }
  /// Opens the models on this rank, and describes it.
  wire::Hello open();
  /// Connects all ranks, plans for this text, and loads the models. Throws UsageError or ModelError if the job is impossible, Interrupted,
  /// and the error of a rank.
  void start(const ExpectedText& text);
  /// Does a piece of work with the ranks. False: the user interrupted it, and the job is to be ended. The error of a request passes
  /// through, and the job can serve another one; after RankLost and ClusterError it cannot. Throws EndedWithOthers.
  bool serve(const std::function<void(Head& head)>& work);
  /// Waits between two pieces of work until `ready` says so; it is asked at least 50 times per second. Meanwhile the other ranks hear this
  /// one, and lost ones are noticed. Returns and throws as serve does.
  bool wait_until(const std::function<bool()>& ready);
  enum class Then { kEnd, kNextJob };
  /// Ends the job. `then`: whether the ranks stay for another job of this command; if the user has interrupted this one, they all end.
  /// Returns a report per rank; none if another job follows.
  std::vector<wire::Report> end(Then then = Then::kEnd);

  /// mpirun asks this rank to end because another has ended, whose guard says why.
  struct EndedWithOthers : Interrupted {};
  /// Whether the user has interrupted it.
  bool interrupted() const { return interrupted_; }

  const JobRank& rank() const { return rank_; }
  const JobExperience& experience() const { return experience_; }
  /// From start on.
  const JobPlanner& planner() const { return *planner_; }
  Transport& transport() const { return transport_; }
  /// After the end: how long result files may wait for the readers of named pipes. The other ranks wait for this one only twice --timeout,
  /// and then end the job as done.
  PipeDeadline pipe_deadline() const;

 private:
  ClusterOptions cluster();

  Transport& transport_;
  JobRank rank_;
  SharedWeights shared_;
  JobExperience experience_;
  LayoutChooser chooser_;
  wire::Hello hello_;
  StartListener listener_;
  std::optional<JobPlanner> planner_;
  std::unique_ptr<Head> head_;  // from start to end; its stages compute on the rank's units
  bool interrupted_ = false;
};

}  // namespace yamata
