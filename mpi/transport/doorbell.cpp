#include "mpi/transport/doorbell.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

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

/// A name in the abstract namespace: it is in no folder and disappears with its socket.
Address address(std::uint64_t job, int rank) {
  const std::string text = fmt::format("yamata-{:016x}-{}", job, rank);
  Address address;
  address.name.sun_family = AF_UNIX;
  std::memcpy(address.name.sun_path + 1, text.data(), text.size());  // the zero byte before it makes the name abstract
  address.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  return address;
}

void write_to(int fd, const Address& to, char what) { sendto(fd, &what, 1, MSG_DONTWAIT | MSG_NOSIGNAL, to.get(), to.size); }

int open_bell(const Address& own) {
  const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0 || bind(fd, own.get(), own.size) == 0) return fd;
  close(fd);
  return -1;
}

/// Zero-initialized shared memory of `bytes` bytes under this name; null if there is none.
void* share(const std::string& name, std::size_t bytes) {
  const int fd = shm_open(name.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
  if (fd < 0) return nullptr;
  void* memory = MAP_FAILED;
  if (ftruncate(fd, static_cast<off_t>(bytes)) == 0) memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  return memory == MAP_FAILED ? nullptr : memory;
}

}  // namespace

Doorbell::Doorbell(std::uint64_t job, int rank, int ranks) : job_(job), rank_(rank), ranks_(ranks) {
  static_assert(std::atomic<std::uint32_t>::is_always_lock_free);
  sleepers_ = static_cast<Sleeper*>(share(page_name(), static_cast<std::size_t>(ranks) * sizeof(Sleeper)));
  fd_ = open_bell(address(job, rank));
}

Doorbell::~Doorbell() {
  unlink();  // if a rank died before all had mapped it
  if (fd_ >= 0) close(fd_);
  if (sleepers_) munmap(sleepers_, static_cast<std::size_t>(ranks_) * sizeof(Sleeper));
}

std::string Doorbell::page_name() const { return fmt::format("/yamata-{:016x}", job_); }

void Doorbell::unlink() const { shm_unlink(page_name().c_str()); }

void Doorbell::notify(int rank) const {
  std::atomic_thread_fence(std::memory_order_seq_cst);  // either this rank sees the sleeper's flag, or the sleeper sees the message
  if (fd_ >= 0 && sleepers_ && sleepers_[rank].sleeps.exchange(0) != 0) write_to(fd_, address(job_, rank), kOther);
}

void Doorbell::notify_own() const {
  if (fd_ >= 0) write_to(fd_, address(job_, rank_), kOwn);
}

void Doorbell::asleep(bool sleeps) const {
  if (!sleepers_) return;
  sleepers_[rank_].sleeps = sleeps;
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

Doorbell::Notifications Doorbell::answer() const {
  Notifications received;
  for (char what = 0; fd_ >= 0 && recv(fd_, &what, 1, MSG_DONTWAIT) == 1;) (what == kOther ? received.others : received.own) = true;
  return received;
}

}  // namespace yamata
