// The network of an emulated cluster: a switch in user space. Each port is a TAP device with a rate and a delay. Kernels of many virtual
// machines lack the queueing discipline for delays, and a shaped veth pair cannot be stalled on command.
//
//   emulated-switch PREFIX PORTS     makes the devices PREFIX0, PREFIX1, ...; prints "ready"; ends at the end of its input
//
// Input lines:  rate PORT MBIT | delay PORT MS | jitter PORT MS | loss PORT PERCENT | stall PORT SECONDS
//
// The time of a frame from port i to j is max(size/rate_i, size/rate_j) + (delay_i + delay_j + random jitter_i + random jitter_j)/2; frames
// from one port to another keep their order. A frame is lost with the probabilities of both ports; without these, nothing is ever dropped.
// Connections take turns on the link from their host, as in the queue that Linux uses by default (fq_codel): a large message of one does
// not delay another.
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <deque>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace {

using Address = std::array<unsigned char, 6>;
constexpr std::int64_t kSecond = 1'000'000'000;  // times are in nanoseconds
constexpr std::size_t kVnetHeader = 10;          // the header of every frame, which allows frames of 64 KiB
constexpr double kSlow = 20e6;                   // bits/s below which such a frame would take too long
constexpr std::size_t kEthernetHeader = 14;

std::int64_t now() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * kSecond + t.tv_nsec;
}

using Bytes = std::vector<unsigned char>;

struct Frame {
  std::int64_t due = 0;
  Bytes bytes;
};

/// The addresses and ports of a frame of TCP over IPv4; all other frames count as one connection.
using Connection = std::array<unsigned char, 12>;

Connection connection_of(const Bytes& frame) {
  constexpr std::size_t kProtocol = kVnetHeader + kEthernetHeader + 9, kAddresses = kProtocol + 3;
  constexpr unsigned char kTcp = 6;
  Connection connection{};
  const bool tcp = frame.size() >= kAddresses + connection.size() && frame[kVnetHeader + 12] == 8 && frame[kVnetHeader + 13] == 0 &&
                   frame[kProtocol - 9] == 0x45 && frame[kProtocol] == kTcp;
  if (tcp) std::memcpy(connection.data(), frame.data() + kAddresses, connection.size());
  return connection;
}

struct Port {
  int tap = -1;
  double bits_per_second = 1e12;
  std::int64_t delay = 0, jitter = 0;
  double loss = 0;  // probability
  std::int64_t stalled_until = 0;
  std::int64_t in_free = 0, out_free = 0;        // when the link from and to the host has sent everything before
  std::map<Connection, std::deque<Bytes>> due;   // frames from the host that wait for its link
  Connection last{};                             // whose frame was sent last
  std::deque<Frame> leaving;                     // to the host, in the order of arrival
  std::map<std::size_t, std::int64_t> last_due;  // of the frames from each port

  std::int64_t line_time(std::size_t bytes) const { return static_cast<std::int64_t>(8e9 * static_cast<double>(bytes) / bits_per_second); }
  std::int64_t next_due() const { return std::max(leaving.front().due, stalled_until); }
};

class Switch {
 public:
  Switch(const std::string& prefix, int count) : ports_(static_cast<std::size_t>(count)) {
    for (std::size_t i = 0; i < ports_.size(); ++i) ports_[i].tap = open_tap(prefix + std::to_string(i));
  }

  void run() {
    while (serve()) {
    }
  }

 private:
  static bool allow_large_frames(int tap, bool large) { return ioctl(tap, TUNSETOFFLOAD, TUN_F_CSUM | (large ? TUN_F_TSO4 : 0u)) == 0; }

  /// Real cards send the packets of a large frame one by one, so that the packets of other connections come between them, and each can be
  /// lost.
  void choose_frames() {
    const bool large = std::ranges::none_of(ports_, [](const Port& port) { return port.bits_per_second < kSlow || port.loss > 0; });
    for (const Port& port : ports_) allow_large_frames(port.tap, large);
  }

  static int open_tap(const std::string& name) {
    const int tap = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    ifreq request{};
    request.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR;
    std::strncpy(request.ifr_name, name.c_str(), IFNAMSIZ - 1);
    if (tap < 0 || ioctl(tap, TUNSETIFF, &request) < 0 || !allow_large_frames(tap, true)) {
      std::perror(("emulated-switch: cannot make the network device " + name).c_str());
      std::exit(1);
    }
    return tap;
  }

  /// Waits for the next event and handles it; false at the end of the input.
  bool serve() {
    std::int64_t next = now() + kSecond;
    std::vector<pollfd> waits{{STDIN_FILENO, POLLIN, 0}};
    for (const Port& port : ports_) {
      const std::int64_t ready = std::max(port.in_free, port.stalled_until);
      if (!port.due.empty()) next = std::min(next, ready);
      if (!port.leaving.empty()) next = std::min(next, port.next_due());
      waits.push_back({port.tap, POLLIN, 0});
    }
    const std::int64_t nap = std::max<std::int64_t>(0, next - now());
    const timespec timeout{nap / kSecond, nap % kSecond};
    if (ppoll(waits.data(), waits.size(), &timeout, nullptr) < 0) return false;
    for (std::size_t i = 0; i < ports_.size(); ++i) {
      if (waits[i + 1].revents & POLLIN) take(ports_[i]);
      send(i);
    }
    for (Port& port : ports_) deliver(port);
    return !(waits[0].revents & (POLLIN | POLLHUP)) || listen();
  }

  /// Reads all frames that a host has sent.
  void take(Port& port) {
    while (true) {
      const ssize_t size = read(port.tap, buffer_.data(), buffer_.size());
      if (size < static_cast<ssize_t>(kVnetHeader + kEthernetHeader)) return;
      Bytes frame(buffer_.begin(), buffer_.begin() + size);
      port.due[connection_of(frame)].push_back(std::move(frame));
    }
  }

  /// Sends frames from a host, one of each connection in turn, until its link is busy.
  void send(std::size_t from) {
    Port& port = ports_[from];
    while (!port.due.empty() && std::max(port.in_free, port.stalled_until) <= now()) {
      auto next = port.due.upper_bound(port.last);
      if (next == port.due.end()) next = port.due.begin();
      port.last = next->first;
      const Bytes frame = std::move(next->second.front());
      next->second.pop_front();
      if (next->second.empty()) port.due.erase(next);
      route(from, frame);
    }
  }

  void route(std::size_t from, const Bytes& frame) {
    Port& port = ports_[from];
    Address to, source;
    std::memcpy(to.data(), frame.data() + kVnetHeader, to.size());
    std::memcpy(source.data(), frame.data() + kVnetHeader + to.size(), source.size());
    where_[source] = from;
    port.in_free = std::max(now(), port.in_free) + port.line_time(frame.size() - kVnetHeader);
    const auto known = where_.find(to);
    for (std::size_t i = 0; i < ports_.size(); ++i) {
      if (i != from && (known == where_.end() || known->second == i)) forward(from, ports_[i], frame);
    }
  }

  double random() { return std::uniform_real_distribution<>()(generator_); }

  std::int64_t random_jitter(const Port& port) { return static_cast<std::int64_t>(random() * static_cast<double>(port.jitter)); }

  void forward(std::size_t from_index, Port& to, const Bytes& frame) {
    const Port& from = ports_[from_index];
    const std::size_t size = frame.size() - kVnetHeader;
    const std::int64_t began = from.in_free - from.line_time(size);
    to.out_free = std::max(to.out_free, began) + to.line_time(size);  // a slow sender does not occupy a fast link
    if (random() < from.loss || random() < to.loss) return;
    const std::int64_t delay = from.delay + to.delay + random_jitter(from) + random_jitter(to);
    std::int64_t& last_due = to.last_due[from_index];
    const std::int64_t due = last_due = std::max(last_due, std::max(from.in_free, to.out_free) + delay / 2);
    const auto later = std::find_if(to.leaving.rbegin(), to.leaving.rend(), [&](const Frame& frame) { return frame.due <= due; });
    to.leaving.insert(later.base(), {due, frame});
  }

  static void deliver(Port& port) {
    while (!port.leaving.empty() && port.next_due() <= now()) {
      const Bytes& bytes = port.leaving.front().bytes;
      // A device that is not up yet receives nothing; frames to it are lost, as on a real network.
      if (write(port.tap, bytes.data(), bytes.size()) < 0 && errno == EAGAIN) return;
      port.leaving.pop_front();
    }
  }

  bool listen() {
    char text[512];
    const ssize_t size = read(STDIN_FILENO, text, sizeof text);
    if (size <= 0) return false;
    line_.append(text, static_cast<std::size_t>(size));
    for (std::size_t end; (end = line_.find('\n')) != std::string::npos; line_.erase(0, end + 1)) execute(line_.substr(0, end));
    return true;
  }

  void execute(const std::string& command) {
    char word[16] = "";
    unsigned index = 0;
    double value = 0;
    if (std::sscanf(command.c_str(), "%15s %u %lf", word, &index, &value) != 3 || index >= ports_.size() || !(value >= 0)) {
      std::fprintf(stderr, "emulated-switch: '%s' is no command\n", command.c_str());
      return;
    }
    Port& port = ports_[index];
    const std::string what = word;
    if (what == "rate") {
      port.bits_per_second = value > 0 ? 1e6 * value : 1e12;
      choose_frames();
    }
    if (what == "delay") port.delay = static_cast<std::int64_t>(1e6 * value);
    if (what == "jitter") port.jitter = static_cast<std::int64_t>(1e6 * value);
    if (what == "loss") {
      port.loss = value / 100;
      choose_frames();
    }
    if (what == "stall") port.stalled_until = now() + static_cast<std::int64_t>(static_cast<double>(kSecond) * value);
  }

  std::vector<Port> ports_;
  std::map<Address, std::size_t> where_;
  std::mt19937 generator_;  // the same numbers in each run
  std::array<unsigned char, 70000> buffer_{};
  std::string line_;
};

}  // namespace

int main(int argc, char** argv) {
  const int ports = argc == 3 ? std::atoi(argv[2]) : 0;
  if (ports < 1) {
    std::fprintf(stderr, "usage: emulated-switch PREFIX PORTS\n");
    return 1;
  }
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  prctl(PR_SET_TIMERSLACK, 1000UL);
  Switch hub(argv[1], ports);
  std::puts("ready");
  std::fflush(stdout);
  hub.run();
}
