// Waits that sockets end, and when sockets are trusted for that.
#include "mpi/transport/socket_waker.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string_view>

#include "mpi/transport/congestion.hpp"

namespace yamata {
namespace {

/// Two ends of a TCP connection inside this process.
class Connection {
 public:
  Connection() {
    const int listener = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    bind(listener, reinterpret_cast<sockaddr*>(&address), size);
    listen(listener, 1);
    getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size);
    near_ = socket(AF_INET, SOCK_STREAM, 0);
    connected_ = connect(near_, reinterpret_cast<sockaddr*>(&address), size) == 0;
    far_ = accept(listener, nullptr, nullptr);
    close(listener);
  }
  ~Connection() {
    close(near_);
    close(far_);
  }
  int near() const { return near_; }
  bool connected() const { return connected_ && far_ >= 0; }
  void send() { ASSERT_EQ(write(far_, "x", 1), 1); }
  void take() {
    char byte;
    ASSERT_EQ(read(near_, &byte, 1), 1);
  }

 private:
  int near_ = -1, far_ = -1;
  bool connected_ = false;
};

constexpr std::chrono::microseconds kShort{100}, kForEver{3600'000'000};

TEST(SocketWaker, AMessage_endsARestThatWouldHaveLastedAnHour) {
  Connection connection;
  if (!connection.connected()) GTEST_SKIP() << "no loopback network here";
  SocketWaker waker;
  EXPECT_FALSE(waker.sleep(kShort));
  connection.send();
  EXPECT_TRUE(waker.sleep(kForEver));
  connection.take();
  EXPECT_FALSE(waker.sleep(kShort));
}

TEST(SocketWaker, ABell_endsARest) {
  const auto job = static_cast<std::uint64_t>(getpid()) << 32;
  Doorbell bell(job, 0, 2), other(job, 1, 2);
  if (other.fd() < 0) GTEST_SKIP() << "no sockets here";
  SocketWaker waker(&bell);
  other.map(0, bell.page());
  bell.asleep(true);
  other.notify(0);
  EXPECT_TRUE(waker.sleep(kForEver));
  EXPECT_TRUE(waker.expecting()) << "a message is on its way";
  bell.notify_own();
  EXPECT_TRUE(waker.sleep(kForEver));
  EXPECT_FALSE(waker.expecting()) << "it was this rank's own computation";
  EXPECT_FALSE(waker.sleep(kShort));
}

/// Messages that arrive by the connection and end a sleep.
void hear(SocketWaker& waker, Connection& connection, int messages) {
  for (int i = 0; i < messages; ++i) {
    connection.send();
    waker.sleep(kForEver);
    connection.take();
    waker.looked(true);
  }
}

/// A message that is found after a sleep that it did not end.
void miss(SocketWaker& waker) {
  waker.sleep(kShort);
  waker.looked(true);
}

TEST(SocketWaker, Trust_isLostByMessagesThatDoNotWakeAndComesBackLater) {
  Connection connection;
  if (!connection.connected()) GTEST_SKIP() << "no loopback network here";
  SocketWaker waker;
  const auto messages_until_trusted = [&] {
    int messages = 0;
    for (; !waker.trusted(); ++messages) {
      waker.nap(kShort);
      waker.looked(true);
    }
    return messages;
  };
  EXPECT_TRUE(waker.trusted());
  miss(waker);
  EXPECT_TRUE(waker.trusted()) << "one now and then may slip through";
  miss(waker);
  EXPECT_FALSE(waker.trusted());
  const int first = messages_until_trusted();
  EXPECT_GT(first, 10);
  miss(waker);
  EXPECT_EQ(messages_until_trusted(), 2 * first) << "a network that tells of nothing is tried more and more rarely";
  hear(waker, connection, 20);
  miss(waker);
  EXPECT_TRUE(waker.trusted());
}

TEST(SocketWaker, MessagesThatComeWithTheOwnRing_sayNothing) {
  const auto job = static_cast<std::uint64_t>(getpid()) << 32;
  Doorbell bell(job, 0, 1);
  if (bell.fd() < 0) GTEST_SKIP() << "no sockets here";
  SocketWaker waker(&bell);
  for (int i = 0; i < 10; ++i) {
    bell.notify_own();
    waker.sleep(kForEver);
    waker.looked(true);
  }
  EXPECT_TRUE(waker.trusted());
}

TEST(SocketWaker, MessagesInARow_areToldByTheFirst) {
  Connection connection;
  if (!connection.connected()) GTEST_SKIP() << "no loopback network here";
  SocketWaker waker;
  for (int i = 0; i < 20; ++i) {
    hear(waker, connection, 1);
    waker.looked(true);
    waker.looked(true);
  }
  EXPECT_TRUE(waker.trusted());
}

TEST(SocketWaker, ASocketThatNobodyReads_doesNotKeepTheRankAwake) {
  Connection connection;
  if (!connection.connected()) GTEST_SKIP() << "no loopback network here";
  SocketWaker waker;
  connection.send();
  int woken = 0;
  for (int i = 0; i < 200; ++i) {
    woken += waker.sleep(kShort);
    waker.looked(false);
  }
  EXPECT_LT(woken, 20);
  EXPECT_GT(woken, 2);
}

TEST(CongestionControl, IsThatOfTheSocket) {
  Connection connection;
  ASSERT_TRUE(connection.connected());
  const std::string_view reno = "reno";  // every kernel has it
  ASSERT_EQ(setsockopt(connection.near(), IPPROTO_TCP, TCP_CONGESTION, reno.data(), static_cast<socklen_t>(reno.size())), 0);
  EXPECT_EQ(congestion_control_of(connection.near()), reno);
  EXPECT_EQ(congestion_control_of(-1), "");
  EXPECT_EQ(congestion_control(), "") << "it stays on this machine";
}

}  // namespace
}  // namespace yamata
