// Messages to mpirun, received by a socket in its place.
#include "mpi/cluster/mpirun.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <thread>
#include <vector>

namespace yamata {
namespace {

/// Takes connections on a port of this machine.
class Listener {
 public:
  Listener() : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(fd_, 8), 0);
    getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
  }
  ~Listener() { close(fd_); }
  /// Receives the next connection's message, and answers it.
  std::vector<char> hear(std::size_t bytes) const {
    const int connection = accept(fd_, nullptr, nullptr);
    std::vector<char> heard(bytes);
    EXPECT_EQ(recv(connection, heard.data(), bytes, MSG_WAITALL), static_cast<ssize_t>(bytes));
    EXPECT_EQ(send(connection, "!", 1, MSG_NOSIGNAL), 1);
    close(connection);
    return heard;
  }
  /// Receives the next connection, which says nothing.
  void hear_nothing() const {
    const int connection = accept(fd_, nullptr, nullptr);
    char any;
    EXPECT_EQ(recv(connection, &any, 1, 0), 0);
    close(connection);
  }
  /// Whether a connection waits.
  bool has_more() const {
    pollfd waiting{fd_, POLLIN, 0};
    return poll(&waiting, 1, 0) == 1;
  }
  std::string uri() const { return fmt::format("77.0;tcp://127.0.0.1:{}", port_); }

 private:
  int fd_, port_ = 0;
};

TEST(Mpirun, Addresses_areReadOrRefused) {
  const auto remote = Mpirun::from_addresses("77.2;tcp://10.0.0.2:400", "77.0;tcp://10.0.0.1,192.168.1.1:500;ud://3", 4);
  ASSERT_TRUE(remote);
  EXPECT_FALSE(remote->is_parent());
  const auto own = Mpirun::from_addresses("77.0;tcp://10.0.0.1:500", "77.0;tcp://10.0.0.1:500", 4);
  ASSERT_TRUE(own);
  EXPECT_TRUE(own->is_parent());
  for (const char* wrong : {"", "77.0", "77.0;tcp://10.0.0.1", "77.0;tcp://10.0.0.1:0", "77.0;tcp://host:500", "x;tcp://10.0.0.1:500"})
    EXPECT_FALSE(Mpirun::from_addresses("77.1;tcp://10.0.0.2:400", wrong, 4)) << wrong;
  EXPECT_FALSE(Mpirun::from_addresses("77.1;tcp://10.0.0.2:400", "77.0;tcp://10.0.0.1:500", 0));
}

TEST(Mpirun, Answer_tellsOneThatRunsFromOneThatIsGone) {
  auto listener = std::make_unique<Listener>();
  const auto mpirun = Mpirun::from_addresses("", listener->uri(), 3);
  ASSERT_TRUE(mpirun);
  EXPECT_EQ(mpirun->ask(), Mpirun::Answer::kRuns);
  listener.reset();
  EXPECT_EQ(mpirun->ask(), Mpirun::Answer::kGone);
  EXPECT_FALSE(mpirun->release_daemons());
}

TEST(Mpirun, SuspendedOne_keepsItsDaemons) {
  const Listener listener;  // which accepts no connection now
  const auto mpirun = Mpirun::from_addresses("", listener.uri(), 3);
  ASSERT_TRUE(mpirun);
  EXPECT_FALSE(mpirun->release_daemons());
  listener.hear_nothing();
  EXPECT_FALSE(listener.has_more()) << "when it continues, it would take this for a daemon";
}

TEST(Mpirun, Daemons_areReleasedOneByOneInTheirNames) {
  constexpr std::size_t kHeader = 64, kPayload = 8;
  const Listener listener;
  const auto mpirun = Mpirun::from_addresses("", listener.uri(), 3);
  ASSERT_TRUE(mpirun);
  std::vector<std::vector<char>> heard;
  std::thread server([&] {
    listener.hear_nothing();
    for (int daemon = 1; daemon < 3; ++daemon) heard.push_back(listener.hear(kHeader + kPayload));
  });
  EXPECT_TRUE(mpirun->release_daemons());
  server.join();
  ASSERT_EQ(heard.size(), 2u);
  for (std::uint32_t daemon = 1; daemon < 3; ++daemon) {
    const char* said = heard[daemon - 1].data();
    std::uint32_t words[7];
    std::memcpy(words, said, sizeof(words));
    EXPECT_EQ(words[0], 77u);     // from: the job of mpirun and its daemons
    EXPECT_EQ(words[1], daemon);  // and the daemon
    EXPECT_EQ(words[2], 77u);     // to
    EXPECT_EQ(words[3], 0u);
    EXPECT_EQ(ntohl(words[6]), kPayload);
    EXPECT_EQ(said[28], 1);  // a daemon's handshake
    EXPECT_EQ(std::memcmp(said + kHeader,
                          "\0\1"
                          "4.0.0",
                          kPayload),
              0);
  }
}

}  // namespace
}  // namespace yamata
