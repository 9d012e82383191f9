// Rests that sockets end, and when they are to be trusted with it.
#include "mpi/socket_waker.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

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
  EXPECT_FALSE(waker.rest(kShort));
  connection.send();
  EXPECT_TRUE(waker.rest(kForEver));
  connection.take();
  EXPECT_FALSE(waker.rest(kShort));
}

TEST(SocketWaker, ABell_endsARest) {
  const auto job = static_cast<std::uint64_t>(getpid()) << 32;
  Doorbell bell(job, 0, 2), other(job, 1, 2);
  SocketWaker waker(&bell);
  other.ring(0);
  EXPECT_TRUE(waker.rest(kForEver));
  EXPECT_TRUE(waker.expecting()) << "a message is on its way";
  bell.ring_own();
  EXPECT_TRUE(waker.rest(kForEver));
  EXPECT_FALSE(waker.expecting()) << "it was this rank's own computation";
  EXPECT_FALSE(waker.rest(kShort));
}

TEST(SocketWaker, Trust_isWonByMessagesThatWakeAndLostByThoseThatDoNot) {
  Connection connection;
  if (!connection.connected()) GTEST_SKIP() << "no loopback network here";
  SocketWaker waker;
  const auto hear = [&](int messages) {
    for (int i = 0; i < messages; ++i) {
      connection.send();
      waker.rest(kForEver);
      connection.take();
      waker.looked(true);
    }
  };
  EXPECT_TRUE(waker.trusted()) << "until the first message that it does not tell of";
  waker.rest(kShort);
  waker.looked(true);
  EXPECT_FALSE(waker.trusted());
  hear(40);
  EXPECT_TRUE(waker.trusted());
  for (int i = 0; i < 20; ++i) waker.looked(true);  // the next of several: no rest before them
  EXPECT_TRUE(waker.trusted());
  for (int i = 0; i < 20; ++i) {
    waker.rest(kShort);
    waker.looked(true);  // by another way
  }
  EXPECT_FALSE(waker.trusted());
}

TEST(SocketWaker, ASocketThatNobodyReads_doesNotKeepTheRankAwake) {
  Connection connection;
  if (!connection.connected()) GTEST_SKIP() << "no loopback network here";
  SocketWaker waker;
  connection.send();
  int woken = 0;
  for (int i = 0; i < 200; ++i) {
    woken += waker.rest(kShort);
    waker.looked(false);
  }
  EXPECT_LT(woken, 20);
  EXPECT_GT(woken, 2);
}

}  // namespace
}  // namespace yamata
