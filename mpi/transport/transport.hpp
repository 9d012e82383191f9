#pragma once
// Ordered, tagged, buffered messages between ranks.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "node/group_exchange.hpp"

namespace yamata {

/// The kind of a message; payloads are specified in mpi/protocol/wire.hpp. Messages of one source and tag arrive in the order sent.
enum class Tag : int {
  kHello = 1,    ///< rank -> head: the rank's description, and fingerprints of its files
  kStart,        ///< head -> rank: the plan of the job
  kRecord,       ///< stage k -> k+1: the ordered stream of runs and cache operations
  kActivations,  ///< stage k -> k+1: hidden states of one run
  kLogits,       ///< last stage -> head: requested rows
  kCancel,       ///< head -> stage: runs whose results are not needed any more
  kDraftRecord,  ///< like the four above, among the ranks of a draft model
  kDraftActivations,
  kDraftLogits,
  kDraftCancel,
  kCommit,           ///< head -> drafter: new tokens of the text
  kGuesses,          ///< drafter -> head: guesses
  kHeartbeat,        ///< rank <-> head: alive, and its progress
  kFailure,          ///< rank -> head: exit code and an error message of one line
  kStop,             ///< head -> rank: end with this exit code
  kReport,           ///< rank -> head: statistics
  kAsk,              ///< head -> rank: send the statistics now
  kNextJob,          ///< head -> rank: this job is over, say hello for the next
  kMeasure,          ///< head -> rank: measure your speed
  kMeasured,         ///< rank -> head: its speed
  kProbe,            ///< head <-> rank: measures a link
  kBenchmark,        ///< head -> rank: compute shared layers with other ranks, to measure them
  kBenchmarkResult,  ///< rank -> head: how long they took
  kLeftOut,          ///< head -> rank: the job goes on without you
  kAskFiles,         ///< rank -> head: a model's files are not on this machine; what are they?
  kModelFiles,       ///< head -> rank: their sizes and headers
  kAskChunk,         ///< rank -> head: a piece of such a file
  kChunk,            ///< head -> rank: its bytes
  kDisconnect,       ///< the last message between two ranks
  kPart,             ///< from the transport itself: a part of a large message has arrived
};

struct Message {
  int from = 0;
  Tag tag = Tag::kHello;
  std::vector<std::byte> bytes;
};

class Transport {
 public:
  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// The name of a rank's machine; empty if unknown.
  virtual std::string host(int /*rank*/) const { return ""; }
  /// Sends without blocking; the transport keeps the buffer until it is sent. A rank may send to itself.
  virtual void send(int to, Tag tag, std::vector<std::byte> bytes) = 0;
  /// The next message that has arrived, if any; also advances pending sends. Never blocks. A large message is announced by several empty
  /// ones of tag kPart, which show that its sender lives.
  virtual std::optional<Message> receive() = 0;
  /// Number of sends that are not complete.
  virtual std::size_t pending_sends() const = 0;
  virtual std::uint64_t bytes_sent() const = 0;
  /// This rank is lost: messages to it are dropped, and nothing waits for it any more.
  virtual void forget(int rank) = 0;
  virtual bool forgotten(int rank) const = 0;
  /// Whether the process of a rank on this machine has ended, as far as is known.
  virtual bool has_ended(int /*rank*/) const { return false; }
  /// The exchange among `ranks`, of which this rank is one, for layers that they share. All of them must call it. `model` distinguishes
  /// groups of the same ranks. The exchange is used by one other thread, and must not outlive this.
  virtual std::unique_ptr<GroupExchange> join_group(std::span<const int> ranks, int model);
  /// Sleeps for `length`, or until wake(); a message may end it, too.
  virtual void nap(std::chrono::microseconds length) { std::this_thread::sleep_for(length); }
  /// Sleeps until a message arrives, until wake(), or for `limit`. If wakes() is false, it is a nap.
  virtual void sleep(std::chrono::microseconds limit) { nap(limit); }
  /// Sleeps likewise, but messages do not end it. Meanwhile another thread exchanges data with the members of a group and makes the MPI
  /// calls for that.
  virtual void stand_back(std::chrono::microseconds limit) { nap(limit); }
  /// Whether messages end a sleep, as far as is known.
  virtual bool wakes() const { return false; }
  /// Ends this rank's current or next nap or sleep, because there is work other than a message. From any thread.
  virtual void wake() {}
  /// Ends every rank of the job with `code` at once; does not return.
  virtual void abort(int code) = 0;
};

inline std::unique_ptr<GroupExchange> Transport::join_group(std::span<const int>, int) {
  throw std::logic_error("ranks of this transport cannot share layers");
}

}  // namespace yamata
