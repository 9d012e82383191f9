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

/// What a message is; payloads are specified in mpi/protocol/wire.hpp. Messages of one source and tag arrive in the order sent.
enum class Tag : int {
  kHello = 1,    ///< rank -> head: what this rank is and read
  kStart,        ///< head -> rank: the plan of the job
  kRecord,       ///< stage k -> k+1: the ordered stream of runs and cache operations
  kActivations,  ///< stage k -> k+1: hidden states of one run
  kLogits,       ///< last stage -> head: rows asked for
  kCancel,       ///< head -> stage: runs that nobody needs any more
  kDraftRecord,  ///< as the four above, among the ranks of a draft model
  kDraftActivations,
  kDraftLogits,
  kDraftCancel,
  kCommit,      ///< head -> drafter: where the text stands
  kGuesses,     ///< drafter -> head: what may come next
  kHeartbeat,   ///< rank <-> head: alive, and how far
  kFailure,     ///< rank -> head: exit code and one line
  kStop,        ///< head -> rank: end with this exit code
  kReport,      ///< rank -> head: statistics
  kAsk,         ///< head -> rank: tell the statistics now
  kNextJob,     ///< head -> rank: this job is over, say hello for the next
  kMeasure,     ///< head -> rank: say how fast you are
  kMeasured,    ///< rank -> head: how fast it is
  kProbe,       ///< head <-> rank: how long a message takes
  kRehearse,    ///< head -> rank: share a layer with others
  kRehearsed,   ///< rank -> head: what it took
  kDisconnect,  ///< the last message between two ranks
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
  /// The name of a rank's machine; empty where that is not known.
  virtual std::string host(int /*rank*/) const { return ""; }
  /// Sends and returns at once; the buffer is kept until it has left. A rank may send to itself.
  virtual void send(int to, Tag tag, std::vector<std::byte> bytes) = 0;
  /// The next message that has arrived, if any; moves pending sends on. Never blocks.
  virtual std::optional<Message> receive() = 0;
  /// Sends that have not left yet.
  virtual std::size_t pending_sends() const = 0;
  virtual std::uint64_t bytes_sent() const = 0;
  /// This rank is lost: what is sent to it is dropped, and nobody waits for it.
  virtual void forget(int rank) = 0;
  virtual bool forgotten(int rank) const = 0;
  /// Meets the others of `ranks`, of whom this is one, in the layers that they share, as each of them does; `model` tells groups of the
  /// same ranks apart. The exchange is used by one other thread, and not beyond this.
  virtual std::unique_ptr<GroupExchange> join_group(std::span<const int> ranks, int model);
  /// Does nothing for so long, or until wake; a message may end it.
  virtual void nap(std::chrono::microseconds length) { std::this_thread::sleep_for(length); }
  /// Does nothing until a message comes or wake, so long at most. Where `wakes`: else nap.
  virtual void sleep(std::chrono::microseconds limit) { nap(limit); }
  /// Likewise, but no message ends it: another thread meets the members of a group meanwhile, and makes the calls for that.
  virtual void stand_back(std::chrono::microseconds limit) { nap(limit); }
  /// Whether messages end a sleep, as far as can be told.
  virtual bool wakes() const { return false; }
  /// Ends the nap or sleep of this rank, or the next one: there is something other than a message to see to. From any thread.
  virtual void wake() {}
  /// Ends every rank of the job with `code`, at once; does not return.
  virtual void abort(int code) = 0;
};

inline std::unique_ptr<GroupExchange> Transport::join_group(std::span<const int>, int) {
  throw std::logic_error("ranks of this transport cannot share layers");
}

}  // namespace yamata
