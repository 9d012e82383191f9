#include "launch/guard/daemon_watch.hpp"

#include <signal.h>

#include <algorithm>
#include <utility>

#include "node/process.hpp"

namespace yamata {

DaemonWatch::DaemonWatch(pid_t launcher, std::chrono::milliseconds deadline, Clock::time_point now)
    : launcher_(launcher), deadline_(deadline), looked_(now), mpirun_(Mpirun::of_this_process()) {
  if (mpirun_ && mpirun_->is_parent()) mpirun_.reset();
}

/// At most two seconds: where more went by, this process was stopped itself.
std::chrono::milliseconds DaemonWatch::since_last(Clock::time_point now) {
  const auto passed = std::chrono::duration_cast<std::chrono::milliseconds>(now - std::exchange(looked_, now));
  return std::min(passed, std::chrono::milliseconds(2000));
}

void DaemonWatch::keep_awake(Clock::time_point now) {
  const auto passed = since_last(now);
  const bool stopped = mpirun_ && process_state(launcher_) == 'T' && is_mpirun_daemon(process_name(launcher_));
  bad_ = stopped ? bad_ + passed : std::chrono::milliseconds(0);
  if (bad_ >= deadline_) kill(launcher_, SIGCONT);
}

bool DaemonWatch::is_cut_off(Clock::time_point now) {
  const auto passed = since_last(now);
  bad_ = mpirun_ && mpirun_->ask() != Mpirun::Answer::kRuns ? bad_ + passed : std::chrono::milliseconds(0);
  return bad_ >= deadline_;
}

}  // namespace yamata
