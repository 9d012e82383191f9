#include "mpi/transport/socket_waker.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <utility>

namespace yamata {
namespace {

constexpr auto kBetweenFinds = std::chrono::seconds(1);
constexpr int kMaxDistrust = 1 << 20, kLongTrusted = 1000;

bool is_connection(int fd) {
  sockaddr_storage peer{};
  socklen_t size = sizeof peer;
  return getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) == 0 && (peer.ss_family == AF_INET || peer.ss_family == AF_INET6);
}

}  // namespace

std::vector<pollfd> connections() {
  std::vector<pollfd> found;
  std::error_code none;  // without /proc there are no sockets to wait for, and every rest is a nap
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", none)) {
    const int fd = std::atoi(entry.path().filename().c_str());
    if (is_connection(fd)) found.push_back({fd, POLLIN, 0});
  }
  return found;
}

/// Repeated from time to time, since connections are made later, too.
void SocketWaker::find_sockets() {
  watched_ = connections();
  watched_.insert(watched_.begin(), {bell_ ? bell_->fd() : -1, POLLIN, 0});
  found_ = Clock::now();
}

bool SocketWaker::wait(std::chrono::microseconds limit, bool counts) {
  slept_ = counts;
  woken_ = looked_ = false;
  if (Clock::now() - found_ > kBetweenFinds) find_sockets();
  const nfds_t watched = futile_ > kMaxFutile ? 1 : watched_.size();
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(limit);
  const timespec time{seconds.count(), std::chrono::duration_cast<std::chrono::nanoseconds>(limit - seconds).count()};
  const int ready = ppoll(watched_.data(), watched, &time, nullptr);
  if (ready <= 0) return false;  // a message that is found later did not end this wait
  const bool notified = watched_.front().revents != 0;
  woken_ = ready > static_cast<int>(notified);
  if (notified) woken_ |= bell_->answer().others;
  slept_ &= woken_;  // after this rank's own notification, a message says nothing about the wait
  // A closed connection would end every wait.
  std::erase_if(watched_, [](const pollfd& s) { return (s.revents & (POLLHUP | POLLERR | POLLNVAL)) != 0; });
  return true;
}

void SocketWaker::stand_back(std::chrono::microseconds limit) {
  if (watched_.empty()) find_sockets();
  slept_ = woken_ = false;
  const timespec time{0, std::chrono::duration_cast<std::chrono::nanoseconds>(limit).count()};
  if (ppoll(watched_.data(), 1, &time, nullptr) > 0) bell_->answer();
}

void SocketWaker::looked(bool message) {
  if (!message) {
    if (woken_ && !std::exchange(looked_, true)) ++futile_;
    return;  // the parts of a message arrive one by one: the next check still counts for this wait
  }
  futile_ = 0;
  if (distrust_ > 0) --distrust_;
  const bool told = std::exchange(woken_, false);
  if (!std::exchange(slept_, false)) return;
  if (!told && told_ < kNowAndThen) {
    distrust_ = next_distrust_;
    next_distrust_ = std::min(2 * next_distrust_, kMaxDistrust);
  }
  told_ = told ? told_ + 1 : 0;
  if (told_ == kLongTrusted) next_distrust_ = kFirstDistrust;
}

}  // namespace yamata
