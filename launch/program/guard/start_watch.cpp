#include "launch/program/guard/start_watch.hpp"

#include <fmt/format.h>

namespace yamata {
namespace {

using namespace std::chrono_literals;

constexpr auto kLongestStartLook = 500ms;
constexpr auto kFirstGrace = 1000ms, kGrace = 500ms;
constexpr auto kLauncherGrace = 2000ms;  // until rank 0's end has ended the others, also over slow links

}  // namespace

StartWatch::StartWatch(int rank, std::string host, std::chrono::milliseconds deadline, Clock::time_point now)
    : rank_(rank), host_(std::move(host)), deadline_(deadline), clock_(now, kLongestStartLook), begin_(now), running_(now) {}

std::string StartWatch::complaint(Phase phase, bool stopped, Clock::time_point now) {
  const auto awake = clock_.look(now);
  if (!stopped) running_ = awake;
  if (phase == Phase::kWatched || now < held_back_) return "";
  const double seconds = std::chrono::duration<double>(deadline_).count();
  if (stopped && awake - (phase == Phase::kStarting ? begin_ : running_) >= deadline_)
    return fmt::format("rank {} ({}) was stopped before the job had begun; look at that machine (or raise --timeout above {:g} s)", rank_,
                       host_, seconds);
  if (phase == Phase::kStarting && awake - begin_ >= deadline_ + kFirstGrace + (rank_ == 0 ? 0ms : kLauncherGrace) + rank_ * kGrace)
    return fmt::format(
        "rank {} ({}) has waited {:g} s for all ranks to start: one is stopped, dead or cut off, or --timeout is too short for the delay "
        "between them; look at their machines (or raise --timeout)",
        rank_, host_, seconds);
  return "";
}

}  // namespace yamata
