#include "launch/program/serving/standard_front_end.hpp"

#include <unistd.h>

#include <chrono>

#include "launch/program/input/interrupts.hpp"

namespace yamata {

StandardFrontEnd::StandardFrontEnd(Transport& transport)
    : transport_(transport), output_(STDOUT_FILENO, [this] { wake(); }), input_(STDIN_FILENO, [this] { wake(); }) {
  output_.repeat([this] { return JsonLine{{"is", "alive"}, {"progress", loaded_permille_.load()}}; });
}

/// Called by threads, also while this is constructed.
void StandardFrontEnd::wake() {
  if (!serving_ && gone()) g_interrupted = true;
  transport_.wake();
}

bool StandardFrontEnd::input_ended() const {
  constexpr std::chrono::milliseconds kLauncherEnds{300};
  if (!input_.ended()) return false;
  if (!ended_since_) ended_since_ = Clock::now();
  return transport_.size() == 1 || Clock::now() - *ended_since_ > kLauncherEnds;
}

void StandardFrontEnd::joined(int rank, const std::string& host) {
  if (hosts_.size() <= static_cast<std::size_t>(rank)) hosts_.resize(static_cast<std::size_t>(rank) + 1);
  hosts_[static_cast<std::size_t>(rank)] = host;
  say({{"is", "joined"}, {"rank", rank}, {"host", host}});
}

void StandardFrontEnd::loaded(double share) {
  constexpr std::chrono::milliseconds kBetweenShares{250};
  const int permille = static_cast<int>(1000 * share);
  if (permille == loaded_permille_ || (share < 1 && Clock::now() - loading_said_ < kBetweenShares)) return;
  loaded_permille_ = permille;
  loading_said_ = Clock::now();
  say({{"is", "loading"}, {"share", share}});
}

void StandardFrontEnd::serves() {
  output_.repeat({});
  serving_ = true;
}

void StandardFrontEnd::lost(int rank, const std::string& why) {
  const std::string host = static_cast<std::size_t>(rank) < hosts_.size() ? hosts_[static_cast<std::size_t>(rank)] : "";
  say({{"is", "lost"}, {"rank", rank}, {"host", host}, {"why", why}});
}

}  // namespace yamata
