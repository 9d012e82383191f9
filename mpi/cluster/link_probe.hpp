#pragma once
// Measures how long messages take between the head and each other rank.
#include <cstdint>
#include <limits>
#include <vector>

#include "mpi/protocol/wire.hpp"
#include "mpi/transport/transport.hpp"
#include "node/clock.hpp"

namespace yamata {

/// The time of a message between the head and another rank is the latency plus its bytes divided by the rate.
struct Link {
  double latency_s = 0;    ///< one way, between ranks that are awake; includes the calls that send and receive
  double wake_up_s = 0;    ///< additional time if the other rank sleeps
  double bytes_per_s = 0;  ///< a lower bound for fast links with a high latency
};

/// A state machine on the head, between the hellos and the plan. Each rank gets a short message, followed by some longer ones; the time
/// between the answers is the time of the bytes. A near rank is then probed several times more while it is awake, and a fast link with more
/// bytes. Ranks are probed one after another, without waiting for far ones. This takes some milliseconds per rank, or one round trip to the
/// farthest rank.
class LinkProbe {
 public:
  using Time = Clock::time_point;

  explicit LinkProbe(Transport& transport);

  /// Handles a rank's answer. Throws ClusterError if there was no probe.
  void on_answer(int from, const wire::Probe& answer, Time now);
  /// Probes the next rank, if it is time; true if it did.
  bool advance(Time now);
  bool finished() const { return answered_ + 1 == transport_.size(); }
  /// Per rank; the entry of the head itself is empty.
  std::vector<Link> links() const;

 private:
  /// The latest probe of a rank.
  enum class Step : std::uint8_t { kNothing, kShort, kEcho, kLong, kDone };
  struct Peer {
    Step step = Step::kNothing;
    std::uint32_t sent = 0, answers = 0;  ///< probes
    int echoes = 0;
    Time asked, answered;             ///< the last times
    std::vector<double> between_s{};  ///< intervals between the answers of the current train
    double first_s = 0, shortest_s = std::numeric_limits<double>::infinity(), bytes_per_s = 0;
  };

  void send(int to, std::size_t bytes);
  void ask(int rank, Step step, Time now);
  void next_step(int rank, Time now);
  void finish(int rank);

  Transport& transport_;
  std::vector<Peer> peers_;  // per rank
  int asked_ = 0;            // the last rank that was probed
  int answered_ = 0;         // number of ranks whose probes are complete
  Time since_;               // when the last rank was probed
  Time began_;
};

}  // namespace yamata
