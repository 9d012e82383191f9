#include "launch/guard/start_watch.hpp"

#include <fmt/format.h>

#include <utility>

namespace yamata {
namespace {

using namespace std::chrono_literals;

constexpr auto kOwnPause = 2000ms;  // between two looks: the watcher was stopped
constexpr auto kFirstGrace = 1000ms, kGrace = 500ms;

}  // namespace

StartWatch::StartWatch(int rank, std::string host, std::chrono::milliseconds deadline, Clock::time_point now)
    : rank_(rank), host_(std::move(host)), deadline_(deadline), begin_(now), running_(now), looked_(now) {}

std::string StartWatch::complaint(Phase phase, bool stopped, Clock::time_point now) {
  if (const auto pause = now - std::exchange(looked_, now); pause > kOwnPause) {
    begin_ += pause;
    running_ += pause;
  }
  if (!stopped) running_ = now;
  if (phase == Phase::kWatched || now < held_back_) return "";
  const double seconds = std::chrono::duration<double>(deadline_).count();
  if (stopped && now - (phase == Phase::kStarting ? begin_ : running_) >= deadline_)
    return fmt::format("rank {} ({}) was stopped before the job had begun; look at that machine (or raise --timeout above {:g} s)", rank_,
                       host_, seconds);
  if (phase == Phase::kStarting && now - begin_ >= deadline_ + kFirstGrace + rank_ * kGrace)
    return fmt::format(
        "rank {} ({}) has waited {:g} s for all ranks to start: one is stopped, dead or cut off; look at their machines (or raise "
        "--timeout)",
        rank_, host_, seconds);
  return "";
}

}  // namespace yamata
