#pragma once
// Ranks inside one process: threads as ranks in tests, and a single rank that needs no MPI.
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "mpi/transport/transport.hpp"
#include "node/local_exchange.hpp"

namespace yamata {

/// The mailboxes of the ranks of one process. Must outlive their transports.
class LocalNetwork {
 public:
  explicit LocalNetwork(int ranks) : boxes_(static_cast<std::size_t>(ranks)) {}
  int size() const { return static_cast<int>(boxes_.size()); }

 private:
  friend class LocalTransport;
  struct Box {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<Message> messages;
    bool woken = false;
  };
  LocalGroup& group(std::span<const int> ranks, int model);

  std::deque<Box> boxes_;
  std::mutex groups_mutex_;
  std::map<std::pair<std::vector<int>, int>, LocalGroup> groups_;  // by ranks and model
};

class LocalTransport final : public Transport {
 public:
  LocalTransport(LocalNetwork& network, int rank) : network_(network), rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override { return network_.size(); }
  void send(int to, Tag tag, std::vector<std::byte> bytes) override;
  std::optional<Message> receive() override;
  std::size_t pending_sends() const override { return 0; }
  std::uint64_t bytes_sent() const override { return bytes_sent_; }
  void forget(int) override {}
  bool forgotten(int) const override { return false; }
  std::unique_ptr<GroupExchange> join_group(std::span<const int> ranks, int model) override;
  void nap(std::chrono::microseconds length) override;
  bool wakes() const override { return true; }
  void wake() override;
  /// Ends the whole process.
  void abort(int code) override;

 private:
  LocalNetwork& network_;
  int rank_;
  std::uint64_t bytes_sent_ = 0;
};

}  // namespace yamata
