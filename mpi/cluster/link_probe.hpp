#pragma once
// How long messages take between the head and each other rank, found by sending some.
#include <cstdint>
#include <limits>
#include <vector>

#include "mpi/protocol/wire.hpp"
#include "mpi/transport/transport.hpp"
#include "node/clock.hpp"

namespace yamata {

/// What a message between the head and another rank takes: latency, then its bytes at the rate.
struct Link {
  double latency_s = 0;    ///< one way, between ranks that look for messages; with the calls that send and take it
  double wake_up_s = 0;    ///< more, where the other rank sleeps
  double bytes_per_s = 0;  ///< at least: of a fast link that is far there is no time to say more
};

/// A state machine on the head, between the hellos and the plan. Each rank gets a short message and some longer ones behind it; what lies
/// between the answers is what the bytes take. A near rank is then asked several times more, while it is awake, and a fast link with more
/// bytes. One rank after the other, but nobody waits for one that is far. It takes some milliseconds per rank, or there and back to the one
/// that is farthest.
class LinkProbe {
 public:
  using Time = Clock::time_point;

  explicit LinkProbe(Transport& transport);

  /// A rank's answer. Throws ClusterError where nothing was asked that it could answer.
  void on_answer(int from, const wire::Probe& answer, Time now);
  /// Asks the next rank, where it is time to; true if it did.
  bool advance(Time now);
  bool finished() const { return answered_ + 1 == transport_.size(); }
  /// Per rank; nothing is known of the head's link to itself.
  std::vector<Link> links() const;

 private:
  /// What has been asked of a rank last.
  enum class Step : std::uint8_t { kNothing, kShort, kEcho, kLong, kDone };
  struct Peer {
    Step step = Step::kNothing;
    std::uint32_t sent = 0, answers = 0;  ///< probes
    int echoes = 0;
    Time asked, answered;             ///< the last time
    std::vector<double> between_s{};  ///< answers of the train under way
    double first_s = 0, shortest_s = std::numeric_limits<double>::infinity(), bytes_per_s = 0;
  };

  void send(int to, std::size_t bytes);
  void ask(int rank, Step step, Time now);
  void go_on(int rank, Time now);
  void finish(int rank);

  Transport& transport_;
  std::vector<Peer> peers_;  // per rank
  int asked_ = 0;            // the last rank that was asked
  int answered_ = 0;         // ranks of which all is known
  Time since_;               // the last one was asked
  Time began_;
};

}  // namespace yamata
