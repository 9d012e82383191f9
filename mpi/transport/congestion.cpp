#include "mpi/transport/congestion.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>

#include "mpi/transport/socket_waker.hpp"

namespace yamata {
namespace {

/// Whether the other end is on this machine.
bool stays_here(int fd) {
  sockaddr_in peer{};
  socklen_t size = sizeof peer;
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) != 0 || peer.sin_family != AF_INET) return false;
  return (ntohl(peer.sin_addr.s_addr) >> IN_CLASSA_NSHIFT) == IN_LOOPBACKNET;
}

}  // namespace

std::string congestion_control_of(int fd) {
  std::array<char, 16> name{};  // TCP_CA_NAME_MAX
  socklen_t size = name.size() - 1;
  return getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name.data(), &size) == 0 ? name.data() : "";
}

std::string congestion_control() {
  for (const pollfd& connection : connections()) {
    std::string name = stays_here(connection.fd) ? "" : congestion_control_of(connection.fd);
    if (!name.empty()) return name;
  }
  return "";
}

}  // namespace yamata
