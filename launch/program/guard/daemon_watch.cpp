#include "launch/program/guard/daemon_watch.hpp"

#include <signal.h>

#include <algorithm>

#include "node/process.hpp"

namespace yamata {
namespace {

constexpr auto kLongestLook = std::chrono::seconds(2);
constexpr std::chrono::milliseconds kAtTheEnd = std::chrono::seconds(1);

}  // namespace

DaemonWatch::DaemonWatch(pid_t launcher, std::chrono::milliseconds deadline, Clock::time_point now)
    : launcher_(launcher), deadline_(deadline), clock_(now, kLongestLook), awoke_(now), reached_(now), mpirun_(Mpirun::of_this_process()) {
  if (mpirun_ && mpirun_->is_parent()) mpirun_.reset();
}

void DaemonWatch::keep_awake(Clock::time_point now, bool ending) {
  const auto awake = clock_.look(now);
  const bool stopped = mpirun_ && process_state(launcher_) == 'T' && is_mpirun_daemon(process_name(launcher_));
  if (!stopped) awoke_ = awake;
  if (awake - awoke_ >= (ending ? std::min(deadline_, kAtTheEnd) : deadline_)) kill(launcher_, SIGCONT);
}

DaemonWatch::Clock::duration DaemonWatch::unreachable_for(Clock::time_point now, bool asks) {
  const auto awake = clock_.look(now);
  if (!asks || !mpirun_ || mpirun_->ask() == Mpirun::Answer::kRuns) reached_ = awake;
  return awake - reached_;
}

}  // namespace yamata
