#include "mpi/transport/doorbell.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <system_error>

namespace yamata {
namespace {

constexpr char kOther = 'o', kOwn = 's';
constexpr std::size_t kPageBytes = 4096;

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

/// False if nobody has that address any more.
bool write_to(int fd, const Address& to, char what) {
  return sendto(fd, &what, 1, MSG_DONTWAIT | MSG_NOSIGNAL, to.get(), to.size) == 1 || errno != ECONNREFUSED;
}

int open_bell(const Address& own) {
  const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0 || bind(fd, own.get(), own.size) == 0) return fd;
  close(fd);
  return -1;
}

/// Zero-initialized memory in a file of one page; null if it cannot be mapped.
void* map_page(int fd) {
  void* memory = fd < 0 ? MAP_FAILED : mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

}  // namespace

Doorbell::Doorbell(std::uint64_t job, int rank, int ranks) : job_(job), rank_(rank), sleepers_(static_cast<std::size_t>(ranks)) {
  static_assert(std::atomic<std::uint32_t>::is_always_lock_free && sizeof(Sleeper) <= kPageBytes);
  page_fd_ = memfd_create(page_name(rank).c_str(), MFD_CLOEXEC);
  if (page_fd_ >= 0 && ftruncate(page_fd_, kPageBytes) == 0)
    sleepers_[static_cast<std::size_t>(rank)] = static_cast<Sleeper*>(map_page(page_fd_));
  fd_ = open_bell(address(job, rank));
}

Doorbell::~Doorbell() {
  for (const int fd : {fd_, page_fd_}) {
    if (fd >= 0) close(fd);
  }
  for (Sleeper* sleeper : sleepers_) {
    if (sleeper) munmap(sleeper, kPageBytes);
  }
}

std::string Doorbell::page_name(int rank) const { return fmt::format("yamata-{:016x}-{}", job_, rank); }

Doorbell::Page Doorbell::page() const { return {static_cast<std::int32_t>(getpid()), page_fd_}; }

void Doorbell::map(int rank, Page page) {
  const std::string path = fmt::format("/proc/{}/fd/{}", page.process, page.descriptor);
  std::error_code other_machine;
  // a process of this machine may have the same number as the rank on another
  if (std::filesystem::read_symlink(path, other_machine) != fmt::format("/memfd:{} (deleted)", page_name(rank))) return;
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
  Sleeper*& sleeper = sleepers_[static_cast<std::size_t>(rank)];
  if (sleeper) munmap(sleeper, kPageBytes);
  sleeper = static_cast<Sleeper*>(map_page(fd));
  if (fd >= 0) close(fd);
}

void Doorbell::notify(int rank) const {
  std::atomic_thread_fence(std::memory_order_seq_cst);  // either this rank sees the sleeper's flag, or the sleeper sees the message
  Sleeper* sleeper = sleepers_[static_cast<std::size_t>(rank)];
  if (fd_ >= 0 && sleeper && sleeper->sleeps.exchange(0) != 0) write_to(fd_, address(job_, rank), kOther);
}

bool Doorbell::has_ended(int rank) const {
  return fd_ >= 0 && sleepers_[static_cast<std::size_t>(rank)] && !write_to(fd_, address(job_, rank), kOther);
}

void Doorbell::notify_own() const {
  if (fd_ >= 0) write_to(fd_, address(job_, rank_), kOwn);
}

void Doorbell::asleep(bool sleeps) const {
  Sleeper* own = sleepers_[static_cast<std::size_t>(rank_)];
  if (!own) return;
  own->sleeps = sleeps;
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

Doorbell::Notifications Doorbell::answer() const {
  Notifications received;
  for (char what = 0; fd_ >= 0 && recv(fd_, &what, 1, MSG_DONTWAIT) == 1;) (what == kOther ? received.others : received.own) = true;
  return received;
}

}  // namespace yamata
