#include "mpi/cluster/mpirun.hpp"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <thread>

#include "node/process.hpp"

namespace yamata {
namespace {

/// The message with which a daemon introduces itself to mpirun. The same in all releases of Open MPI 4.
struct Handshake {
  std::uint32_t from_job = 0, from_daemon = 0, to_job = 0, to_daemon = 0;
  std::uint32_t tag = 0, sequence = 0;
  std::uint32_t payload_bytes = htonl(sizeof(payload));
  std::uint8_t type = 1;
  std::array<char, 32> route{};
  std::array<char, 3> padding{};
  struct Payload {
    std::array<char, 2> accepts{0, 1};
    std::array<char, 6> protocol{'4', '.', '0', '.', '0', '\0'};
  } payload;
};
static_assert(sizeof(Handshake) == 64 + sizeof(Handshake::Payload));

/// Waits until the socket is ready for `events`.
bool ready(int fd, short events, int patience_ms) {
  pollfd wait{fd, events, 0};
  return poll(&wait, 1, patience_ms) == 1;
}

}  // namespace

std::optional<Mpirun> Mpirun::of_this_process() {
  const std::string own = environment_variable("OMPI_MCA_orte_local_daemon_uri"), mpirun = environment_variable("OMPI_MCA_orte_hnp_uri");
  // A daemon is told the number of daemons. mpirun's own ranks only know the number of machines with ranks, which is not larger.
  return from_addresses(own, mpirun,
                        std::atoi(environment_variable(own == mpirun ? "OMPI_MCA_orte_num_nodes" : "OMPI_MCA_ess_base_num_procs").c_str()));
}

std::optional<Mpirun> Mpirun::from_addresses(const std::string& own_daemon, const std::string& mpirun, int daemons) {
  const auto begin = mpirun.find(";tcp://");
  if (begin == std::string::npos || daemons < 1) return std::nullopt;
  std::string list = mpirun.substr(begin + std::strlen(";tcp://"));
  list = list.substr(0, list.find(';'));
  const auto colon = list.rfind(':');
  if (colon == std::string::npos) return std::nullopt;
  const int port = std::atoi(list.c_str() + colon + 1);
  if (port < 1 || port > 65535) return std::nullopt;

  Mpirun result;
  result.job_ = static_cast<std::uint32_t>(std::strtoul(mpirun.c_str(), nullptr, 10));
  result.daemons_ = static_cast<std::uint32_t>(daemons);
  result.is_parent_ = own_daemon == mpirun;
  std::istringstream hosts(list.substr(0, colon));
  for (std::string host; std::getline(hosts, host, ',');) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    if (inet_pton(AF_INET, host.c_str(), &address.sin_addr) == 1) result.addresses_.push_back(address);
  }
  if (result.job_ == 0 || result.addresses_.empty()) return std::nullopt;
  return result;
}

Mpirun::Connection Mpirun::connect(int patience_ms) const {
  Connection result;
  for (const sockaddr_in& address : addresses_) {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) return result;
    int error = ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 ? 0 : errno;
    if (error == EINPROGRESS && ready(fd, POLLOUT, patience_ms)) {
      socklen_t size = sizeof(error);
      getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
    }
    if (error == 0) return {fd, Answer::kRuns};
    close(fd);
    if (error == ECONNREFUSED) result.answer = Answer::kGone;
  }
  return result;
}

Mpirun::Answer Mpirun::ask(int patience_ms) const {
  const Connection connection = connect(patience_ms);
  if (connection.fd >= 0) close(connection.fd);
  return connection.answer;
}

bool Mpirun::release(std::uint32_t daemon) const {
  const Connection connection = connect();
  if (connection.fd < 0) return false;
  Handshake handshake;
  handshake.from_job = handshake.to_job = job_;
  handshake.from_daemon = daemon;
  const bool sent = ::send(connection.fd, &handshake, sizeof(handshake), MSG_NOSIGNAL) == sizeof(handshake);
  // mpirun has accepted the connection as the daemon's only if it answers.
  const bool taken = sent && ready(connection.fd, POLLIN, kPatienceMs);
  close(connection.fd);
  return taken;
}

bool Mpirun::responds() const {
  const Connection connection = connect();
  if (connection.fd < 0) return false;
  ::shutdown(connection.fd, SHUT_WR);
  const bool closed = ready(connection.fd, POLLIN, kPatienceMs);
  close(connection.fd);
  return closed;
}

std::optional<bool> reaches_distant_mpirun() {
  const auto mpirun = Mpirun::of_this_process();
  if (!mpirun || mpirun->is_parent()) return std::nullopt;
  return mpirun->ask() != Mpirun::Answer::kUnreachable;
}

bool Mpirun::is_reached(std::chrono::milliseconds limit) const {
  constexpr int kAttempts = 3;
  constexpr int kMinMs = 250;  // a lost packet is sent again after 200 ms
  const int patience_ms = std::max(kMinMs, static_cast<int>(limit.count() / (kAttempts + 1) / static_cast<int>(addresses_.size())));
  for (int attempt = 1; ask(patience_ms) == Answer::kUnreachable; ++attempt) {
    if (attempt == kAttempts) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(patience_ms / 2));  // the link may come back
  }
  return true;
}

bool reaches_mpirun(std::chrono::milliseconds limit) {
  const auto mpirun = Mpirun::of_this_process();
  return !mpirun || mpirun->is_parent() || mpirun->is_reached(limit);
}

bool Mpirun::release_daemons() const {
  if (!responds()) return false;
  bool reached = true;
  for (std::uint32_t daemon = 1; daemon < daemons_; ++daemon) reached &= release(daemon);
  return reached;
}

}  // namespace yamata
