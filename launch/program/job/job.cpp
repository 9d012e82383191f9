#include "launch/program/job/job.hpp"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "launch/program/guard/guard.hpp"
#include "launch/program/input/interrupts.hpp"
#include "launch/program/output/progress_bar.hpp"
#include "launch/program/output/warnings.hpp"
#include "mpi/cluster/left_out.hpp"
#include "mpi/cluster/mpirun.hpp"
#include "node/error.hpp"

namespace yamata {

Job::Job(const JobOptions& options, Transport& transport, RankLocation location)
    : transport_(transport),
      rank_(options, transport, std::move(location)),
      shared_(rank_.models()),
      experience_(rank_),
      chooser_(rank_, experience_) {}

wire::Hello Job::open() {
  hello_ = rank_.open();
  return hello_;
}

ClusterOptions Job::cluster() {
  ClusterOptions cluster;
  cluster.timeout = rank_.options().timeout;
  cluster.serving_timeout = rank_.options().serving_timeout;
  cluster.interrupted = &g_interrupted;
  cluster.woken = &g_woken;
  cluster.needs_drafters = rank_.options().needs_drafters;
  cluster.on_warning = warn;
  cluster.on_left_out = [](int rank) {
    may_be_cut_off();
    announce_left_out(rank);
  };
  cluster.reaches_launcher = reaches_distant_mpirun;
  cluster.weights = &shared_;
  const JobLayout& layout = rank_.layout();
  if (layout.is_open() || layout.splits_by_speed()) cluster.measure = [this](const std::atomic<bool>& stop) { return rank_.measure(stop); };
  cluster.probes_links = layout.is_open();
  if (layout.is_open()) {
    cluster.next_group = [this](const std::vector<wire::Hello>& hellos, std::span<const Link> links, std::span<const GroupTime> so_far) {
      return chooser_.next_group(hellos, links, so_far);
    };
    cluster.make_layer = rank_.layer_factory();
  }
  cluster.on_joined = listener_.joined;
  cluster.on_loading = listener_.loading;
  if (!cluster.on_loading && isatty(STDERR_FILENO)) cluster.on_loading = ProgressBar("loading");
  return cluster;
}

void Job::start(const ExpectedText& text) {
  head_ = std::make_unique<Head>(transport_, cluster());
  planner_.emplace(rank_, chooser_, text);
  rank_.models().release_pages();
  tell_guard(Phase::kWatched);
  const auto accepted_plan = [&](const std::vector<wire::Hello>& hellos) {
    wire::Start planned = planner_->plan(hellos, head_->group_times());
    show_warnings();
    return planned;
  };
  head_->start(hello_, rank_.models().fingerprints(), accepted_plan, rank_.stage_factory());
  if (const std::string warning = beyond_training(rank_.models().target().h, rank_.context()); !warning.empty())
    warn(warning + "; " + rank_.options().cache.shorter_context);
}

bool Job::serve(const std::function<void(Head& head)>& work) {
  try {
    work(*head_);
  } catch (const Interrupted&) {
    if (head_->misses_rank()) throw EndedWithOthers{};
    interrupted_ = true;
  }
  return !interrupted_;
}

bool Job::wait_until(const std::function<bool()>& ready) {
  return serve([&](Head& head) {
    while (!ready()) {
      if (!head.step()) head.rest();
    }
  });
}

std::vector<wire::Report> Job::end(Then then) {
  const std::unique_ptr<Head> head = std::move(head_);
  if (interrupted_) {
    constexpr std::chrono::milliseconds kLimit{500};  // mpirun kills this rank after a second: before that, it must write its files
    return head->stop(static_cast<int>(ExitCode::kInterrupted), kLimit);
  }
  if (then == Then::kNextJob) {
    head->finish();
    return {};
  }
  // If the launcher cannot be told, the other ranks end the job as failed, because the text did not arrive there. They must know before
  // this rank writes its files; head_main asks again after that, as this answer does not cover that time. Meanwhile this rank is silent.
  const auto longest = std::min(rank_.options().timeout / 2, std::chrono::milliseconds(4000));
  const bool arrives = transport_.size() == 1 || reaches_mpirun(longest);
  return head->stop(static_cast<int>(arrives ? ExitCode::kDone : ExitCode::kCluster));
}

PipeDeadline Job::pipe_deadline() const {
  return transport_.size() == 1 ? kNoDeadline : std::chrono::steady_clock::now() + rank_.options().timeout;
}

}  // namespace yamata
