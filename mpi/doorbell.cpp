#include "mpi/doorbell.hpp"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

namespace yamata {
namespace {

constexpr char kOther = 'o', kOwn = 's';

struct Address {
  sockaddr_un name{};
  socklen_t size = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&name); }
};

/// A name that lies in no folder and ends with its socket.
Address address(std::uint64_t job, int rank) {
  const std::string text = fmt::format("yamata-{:016x}-{}", job, rank);
  Address address;
  address.name.sun_family = AF_UNIX;
  std::memcpy(address.name.sun_path + 1, text.data(), text.size());  // the zero before it is what keeps it out of the file system
  address.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  return address;
}

bool write_to(int fd, const Address& to, char what) {
  return sendto(fd, &what, 1, MSG_DONTWAIT | MSG_NOSIGNAL, to.get(), to.size) == 1;
}

}  // namespace

Doorbell::Doorbell(std::uint64_t job, int rank, int ranks)
    : job_(job), rank_(rank), fd_(socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)), out_of_earshot_(static_cast<std::size_t>(ranks)) {
  const Address own = address(job, rank);
  if (fd_ < 0 || bind(fd_, own.get(), own.size) == 0) return;
  close(fd_);
  fd_ = -1;
}

Doorbell::~Doorbell() {
  if (fd_ >= 0) close(fd_);
}

void Doorbell::ring(int rank) {
  const auto at = static_cast<std::size_t>(rank);
  if (fd_ < 0 || out_of_earshot_[at]) return;
  // A bell that is full has been rung often enough.
  out_of_earshot_[at] = !write_to(fd_, address(job_, rank), kOther) && errno != EAGAIN && errno != EINTR && errno != ENOBUFS;
}

void Doorbell::ring_own() const {
  if (fd_ >= 0) write_to(fd_, address(job_, rank_), kOwn);
}

Doorbell::Rings Doorbell::answer() const {
  Rings rings;
  for (char what = 0; fd_ >= 0 && recv(fd_, &what, 1, MSG_DONTWAIT) == 1;) (what == kOther ? rings.others : rings.own) = true;
  return rings;
}

}  // namespace yamata
